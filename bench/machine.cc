#include "machine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/strings.h"
#include "sluice/context.h"
#include "tensor/access.h"
#include "tensor/devices.h"
#include "tensor/kernels.h"

namespace sluice::bench {
namespace {

constexpr int kRepeats = 15;

// Runs `work` kRepeats times on cpu(0)'s stream and returns the seconds of the fastest run.
double Best(const std::function<void(Kernels&)>& work) {
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    EnqueueOn(cpu(0), "limit", {}, [&] {
      const Time start = SteadyClock().Now();
      work(Devices::Default()->Get(cpu(0))->kernels());
      const double seconds = ToSeconds(SteadyClock().Now() - start);
      best = repeat == 0 ? seconds : std::min(best, seconds);
    }).Wait();
  }
  return best;
}

// Returns the GFLOP/s of the fastest of several products: which kind and size of product reaches the peak of
// a core depends on its caches.
double ProductRate() {
  double best = 0;
  for (const int64_t size : {384, 512, 1024}) {
    const auto count = static_cast<size_t>(size * size);
    const std::vector<float> x(count, 0.5f), weight(count, 0.25f);
    std::vector<float> out(count);
    const DenseShape shape{.rows = size, .in = size, .units = size};
    const double forward = Best([&](Kernels& kernels) {
      kernels.Dense({.shape = shape, .x = x.data(), .weight = weight.data(), .out = out.data()});
    });
    const double backward = Best([&](Kernels& kernels) {
      kernels.DenseBackward(
          {.shape = shape, .weight = weight.data(), .grad = x.data(), .grad_x = out.data()});
    });
    best = std::max(best, 2.0 * std::pow(static_cast<double>(size), 3) / std::min(forward, backward) / 1e9);
  }
  return best;
}

double CopyRate(size_t bytes, int times) {
  const std::vector<char> from(bytes, 'x');
  std::vector<char> to(bytes);
  const double seconds = Best([&](Kernels&) {
    ForPieces(static_cast<int64_t>(bytes), 1 << 12, [&](int64_t begin, int64_t end) {
      for (int i = 0; i < times; ++i)
        std::memcpy(to.data() + begin, from.data() + begin, static_cast<size_t>(end - begin));
    });
  });
  return 2.0 * static_cast<double>(bytes) * times / seconds / 1e9;
}

std::string LineOf(const std::filesystem::path& file, std::string_view head) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(head)) return std::string(StrTrim(std::string_view(line).substr(head.size())));
  }
  return {};
}

}  // namespace

Limits MeasureLimits() {
  return {ProductRate(), CopyRate(size_t{128} << 20, 1), CopyRate(size_t{256} << 10, 100)};
}

std::map<std::string, uint64_t> VoluntarySwitches() {
  std::map<std::string, uint64_t> switches;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    const std::string name = LineOf(thread.path() / "comm", "");
    const auto count = ParseInt(LineOf(thread.path() / "status", "voluntary_ctxt_switches:"));
    if (count) switches[name] += static_cast<uint64_t>(*count);  // no count: the thread has just ended
  }
  return switches;
}

}  // namespace sluice::bench

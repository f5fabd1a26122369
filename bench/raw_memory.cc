#include <algorithm>
#include <barrier>
#include <thread>

#include "base/simd.h"
#include "raw_parts.h"

namespace sluice::bench {
namespace {

// Returns the GB/s of `threads` threads together; each works on two rings of its own.
double Rate(const RawOptions& options, int threads,
            void (*work)(std::byte* a, const std::byte* b, size_t bytes)) {
  std::vector<std::vector<double>> rates(static_cast<size_t>(threads));
  std::barrier together(threads);
  const auto run = [&](std::vector<double>* mine) {
    const size_t each = options.working_set / 2 / static_cast<size_t>(threads);
    Ring a(options.message_bytes, each), b(options.message_bytes, each);
    for (int i = 0; i < options.repeats; ++i) {
      together.arrive_and_wait();
      const double start = Now();
      size_t bytes = 0;
      while (Now() - start < options.seconds / 4) {
        work(a.Next(), b.Next(), b.message());
        bytes += b.message();
      }
      mine->push_back(static_cast<double>(bytes) * 1e-9 / (Now() - start));
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(run, &rates[static_cast<size_t>(i)]);
  run(&rates.front());
  for (std::thread& other : others) other.join();
  double all = 0;
  for (const std::vector<double>& each : rates) all += Median(each);
  return all;
}

void Copy(std::byte* a, const std::byte* b, size_t bytes) {
  std::memcpy(a, b, bytes);
}

}  // namespace

SLUICE_SIMD void AddTo(std::byte* a, const std::byte* b, size_t bytes) {
  auto* __restrict sums = reinterpret_cast<float*>(a);
  const auto* __restrict values = reinterpret_cast<const float*>(b);
  for (size_t i = 0; i < bytes / sizeof(float); ++i) sums[i] += values[i];
}

MemoryRates CopyRates(const RawOptions& options) {
  return {Rate(options, 1, Copy), Rate(options, 2, Copy)};
}

MemoryRates AddRates(const RawOptions& options) {
  return {Rate(options, 1, AddTo), Rate(options, 2, AddTo)};
}

}  // namespace sluice::bench

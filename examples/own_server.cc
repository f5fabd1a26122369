// A server program with its own update rule, AdaGrad, and a worker that checks its results. The launcher
// starts the same program in both roles; main() chooses by DMLC_ROLE:
//
//   tools/launch.py -n 2 -s 2 --server-command build/bin/own_server build/bin/own_server
#include <gflags/gflags.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <tuple>

#include "common/text.h"
#include "sluice/flags.h"
#include "sluice/kvstore.h"
#include "sluice/runtime.h"
#include "sluice/server.h"

DEFINE_double(rate, 0.25, "Learning rate: what the servers use and the workers expect.");

namespace {

using namespace sluice;
using examples::Counted;
using examples::StrCat;

// The update function of the servers: h += g^2; w -= rate * g / sqrt(h)   (Duchi, Hazan, Singer 2011).
// A server calls it once per block and round, from several threads (sluice/updater.h).
class AdaGrad {
 public:
  void operator()(const UpdateContext& where, std::span<const float> gradient, std::span<float> weight) {
    const auto rate = static_cast<float>(FLAGS_rate);
    std::vector<float>& squares = SquaresOf(where, weight.size());
    for (size_t i = 0; i < weight.size(); ++i) {
      if (gradient[i] == 0) continue;
      squares[i] += gradient[i] * gradient[i];
      weight[i] -= rate * gradient[i] / std::sqrt(squares[i]);
    }
  }

 private:
  // Returns the sums h of one block. A block is updated once per round and always on the same thread, so the
  // lock protects only the map, not the vectors in it; references into a std::map stay valid.
  std::vector<float>& SquaresOf(const UpdateContext& where, size_t size) {
    const std::lock_guard lock(mutex_);
    return squares_.try_emplace({where.store, where.key, where.offset}, size).first->second;
  }

  std::mutex mutex_;
  // By store, key and offset of the block; guarded by mutex_.
  std::map<std::tuple<int, std::string, int64_t>, std::vector<float>> squares_;
};

// The gradients of the three steps, and the roots of the sums of their squares. Element i gets gradients of
// 3, 4 and 12 times Slope(i). AdaGrad does not depend on a gradient's scale, so all elements whose slope is
// not 0 move by the same distances: rate * 3 / 3, rate * 4 / 5 and rate * 12 / 13.
constexpr double kGradients[] = {3, 4, 12}, kRoots[] = {3, 5, 13};

double Slope(size_t i) {
  return static_cast<double>(i % 5) - 2;
}

void Check(const Key& key, const NDArray& weight, double moved) {
  const std::vector<float> values = weight.ToVector();
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = Slope(i) == 0 ? 1 : 1 - std::copysign(moved, Slope(i));
    if (std::abs(values[i] - expected) > 1e-6) {
      throw Error(ErrorCode::kDataLoss,
                  StrCat("element ", i, " of '", ToString(key), "' is ", values[i], " in place of ", expected,
                         ": do the servers run --server-command own_server?"));
    }
  }
}

// Returns this worker's gradient. The gradients differ by worker; their mean is kGradients[step] * Slope(i).
NDArray Gradient(const KVStore& kv, const Shape& shape, size_t step) {
  const double share = 2.0 * (kv.rank() + 1) / (kv.num_workers() + 1);
  std::vector<float> values(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(share * kGradients[step] * Slope(i));
  }
  return NDArray::From(values, shape);
}

void Work() {
  const auto kv = KVStore::Create("dist_sync");
  const PushOptions mean = {.divisor = static_cast<double>(kv->num_workers())};
  // "small" is on one server; "big" is large enough to be split over all servers.
  std::vector<std::pair<Key, NDArray>> weights = {{"small", NDArray({2, 3})}, {"big", NDArray({500, 600})}};
  for (auto& [key, weight] : weights) {
    weight.Fill(1);
    kv->Init(key, weight);
  }
  double moved = 0;
  for (size_t step = 0; step < std::size(kGradients); ++step) {
    moved += FLAGS_rate * kGradients[step] / kRoots[step];
    for (auto& [key, weight] : weights) {
      kv->Push(key, Gradient(*kv, weight.shape(), step), mean);
      kv->Pull(key, &weight);
      Check(key, weight, moved);
      if (kv->rank() != 0) continue;
      std::cout << "step " << step + 1 << ": " << ToString(key) << " starts with "
                << weight.ToVector().front() << std::endl;
    }
  }
  kv->Barrier();
  if (kv->rank() == 0) {
    std::cout << "all values right: " << kv->type() << ", " << Counted(kv->num_workers(), "worker")
              << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string usage = "A server that updates with AdaGrad, and the worker that checks it.";
  const char* role = std::getenv("DMLC_ROLE");
  if (role != nullptr && role == std::string_view("server")) {
    AdaGrad ada_grad;
    return RunServer(argc, argv, [&] {
      ParseFlags(argc, argv, usage);
      return ServerOptions{.updater = std::ref(ada_grad)};
    });
  }
  return RunProgram(argc, argv, [&] {
    ParseFlags(argc, argv, usage);
    Work();
  });
}

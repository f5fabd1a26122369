// A tour of the KVStore: init, push, pull, push_pull, broadcast, optimiser, optimiser states. After each call
// the program prints one value and throws if any value differs from what the comments say.
//
//   build/bin/kv_tour                                            in one process
//   tools/launch.py -n 2 -s 2 build/bin/kv_tour --kv-store dist_sync
#include <gflags/gflags.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "sluice/flags.h"
#include "sluice/kvstore.h"
#include "sluice/runtime.h"
#include "sluice/store_type.h"

DEFINE_string(kv_store, "local", "Type of the store: local, device, nccl, dist_sync, dist_device_sync.");

namespace {

using sluice::KVStore;
using sluice::NDArray;

// Prints the first value on worker 0, and throws on every worker if an element is not `expected`.
void Show(KVStore& kv, const std::string& what, const NDArray& array, float expected) {
  const std::vector<float> values = array.ToVector();
  if (kv.rank() == 0) std::cout << what << ": " << values.front() << std::endl;
  for (const float value : values) {
    if (value != expected) {
      throw sluice::Error(sluice::ErrorCode::kDataLoss,
                          what + ": " + std::to_string(value) + " in place of " + std::to_string(expected));
    }
  }
}

const sluice::Shape kShape = {2, 3};

NDArray Ones() {
  NDArray ones(kShape);
  ones.Fill(1);
  return ones;
}

// Without an optimiser, the store assigns the sum of all workers' pushes to the key.
void ShowSums(KVStore& kv) {
  const auto n = static_cast<float>(kv.num_workers());
  const NDArray ones = Ones();
  NDArray weight(kShape);
  kv.Init("a", ones);
  kv.Pull("a", &weight);
  Show(kv, "initial value", weight, 1);
  kv.Push("a", ones * 2);
  kv.Pull("a", &weight);
  Show(kv, "after a push of 2 by each worker", weight, 2 * n);
  NDArray both = ones * 3;
  kv.PushPull("a", both);
  Show(kv, "push_pull of 3, in place", both, 3 * n);

  // One call may name several keys, with one array for each.
  NDArray first(kShape), second(kShape);
  kv.Init({"c", "d"}, {ones, ones});
  kv.PushPull({"c", "d"}, {ones * 4, ones / 2}, {first, second});
  Show(kv, "push_pull of 4 under one key", first, 4 * n);
  Show(kv, "push_pull of 1/2 under another", second, n / 2);

  // A push of several arrays under one key, usually one per device, sums them in
  // this process before it sends.
  kv.Push("a", {ones, ones, ones, ones});
  kv.Pull("a", &weight);
  Show(kv, "ones from four devices", weight, 4 * n);

  NDArray left(kShape), right(kShape, sluice::cpu(1));
  kv.Broadcast("b", ones * 7, {left, right});
  Show(kv, "broadcast to cpu(0)", left, 7);
  Show(kv, "broadcast to cpu(1)", right.AsInContext(sluice::cpu(0)), 7);
}

// A file of this process in the folder for temporary files.
std::string StatesPath() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) {
    const char* const named = std::getenv("TMPDIR");
    throw sluice::Error(sluice::ErrorCode::kInvalidArgument, "TMPDIR is '" +
                                                                 std::string(named == nullptr ? "" : named) +
                                                                 "', which is no folder (" + error.message() +
                                                                 "); set it to one that can be written");
  }
  return (folder / ("kv_tour-" + std::to_string(getpid()) + ".safetensors")).string();
}

// With an optimiser, the store updates the key with the sum of the pushed gradients: w -= 0.5 * gradient.
void ShowUpdates(KVStore& kv) {
  const auto n = static_cast<float>(kv.num_workers());
  NDArray weight(kShape);
  kv.SetOptimizer({.kind = sluice::OptimizerKind::kSgd, .learning_rate = 0.5, .momentum = 0.5});
  kv.Barrier();
  kv.Push("b", Ones());
  kv.Pull("b", &weight);
  Show(kv, "after one SGD step", weight, 7 - 0.5f * n);
  kv.WaitAll();

  // The optimiser's states, here the momentum, survive a save and a load. Worker 0 writes and reads the file.
  const std::string path = StatesPath();
  kv.SaveOptimizerStates(path);
  kv.LoadOptimizerStates(path);
  std::filesystem::remove(path);
  kv.Barrier();
  kv.Push("b", Ones());
  kv.Pull("b", &weight);
  Show(kv, "after a second step, with the momentum of the first", weight, 7 - 0.5f * n - 0.75f * n);
  kv.Barrier();
}

void Tour() {
  if (sluice::StoreType::Parse(FLAGS_kv_store).async) {
    throw sluice::Error(
        sluice::ErrorCode::kInvalidArgument,
        "--kv-store is " + FLAGS_kv_store +
            ": the tour's values are those of a synchronous store; train_mnist takes async ones");
  }
  const auto kv = KVStore::Create(FLAGS_kv_store);
  ShowSums(*kv);
  ShowUpdates(*kv);
  if (kv->rank() == 0)
    std::cout << "the tour is over: " << kv->type() << ", " << kv->num_workers()
              << (kv->num_workers() == 1 ? " worker" : " workers") << ", all values right" << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  return sluice::RunProgram(argc, argv, [&] {
    sluice::ParseFlags(argc, argv, "A tour of the KVStore; every value is checked.");
    Tour();
  });
}

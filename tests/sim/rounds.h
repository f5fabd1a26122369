// The scripted training that simulations run. In each round every worker pushes every key, and compares the
// weights that it receives with a closed formula.
#pragma once

#include <string>
#include <vector>

#include "sim/sim_cluster.h"

namespace sluice::testing {

struct RoundsOptions {
  int rounds = 100;
  std::vector<int64_t> key_elements = {1, 300, 2000};
  wire::SyncMode mode = wire::SyncMode::kSync;
  OptimizerKind optimizer = OptimizerKind::kAccumulate;  // or kLamb, whose keys must be whole on a shard
  bool push_pull = true;                                 // false: push, then pull
  bool batched = false;                                  // all keys of a round in one batch
  bool in_place = false;                                 // push_pull writes the weights into the gradient
  // Worker w compresses its pushes by w % 3: not at all, fp16, or topk with all elements. The numbers pushed
  // here survive each of these exactly.
  bool compressed = false;
  bool rows = false;  // a row-sparse key as well; each worker pushes a few of its rows
  // Worker 0 sets the weights before every round that is a multiple of `sets`, and each other worker
  // calls Set every second time; 0: never.
  int sets = 0;
  double cut_chance = 0.01;                      // probability of a short partition, per round and worker
  Duration deadline = std::chrono::minutes(30);  // in virtual time
};

struct RoundsResult {
  bool completed = false;  // all workers did all rounds before the virtual deadline
  std::string mismatch;    // describes the first wrong value or error; empty: none
  uint64_t history = 0;    // hash of everything that happened
  std::string log;         // the network's log; empty if completed
};

// Runs the script and returns the result. Weights start at 0. In round r worker w pushes (w + 1) * (r + i %
// 7) as element i, and rows of the row-sparse key that depend on both w and r. With the optimiser kAccumulate
// an element is after round r the sum over all workers and rounds so far: small whole numbers, which float32
// represents exactly. kLamb updates with the same sums and is compared with the published formula.
RoundsResult RunRounds(SimCluster& cluster, const RoundsOptions& options);

// Returns a float32 gradient as a worker's store passes it to the client: encoded part by part, with
// residuals of zero.
Frame EncodedAs(const GradientCompression& how, const Frame& gradient, const wire::KeyEntry& entry);

}  // namespace sluice::testing

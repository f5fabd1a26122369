// The scripted training that simulations run: every worker pushes every key each round and checks what comes
// back against closed form.
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
  bool bundled = false;                                  // all keys of a round in one operation
  bool in_place = false;                                 // of push_pull: weights land where the gradient was
  // Workers take turns in how they push: as it is, fp16, topk of all. These numbers lose nothing by it.
  bool compressed = false;
  bool rows = false;  // a row-sparse key as well, of which each pushes a few rows
  // Before every so many rounds worker 0 sets the weights, and each other worker every second time; 0: never.
  int sets = 0;
  double cut_chance = 0.01;                      // of a short partition, per round and worker
  Duration deadline = std::chrono::minutes(30);  // virtual
};

struct RoundsResult {
  bool completed = false;  // all workers did all rounds before the virtual deadline
  std::string mismatch;    // the first wrong value, in words; empty: all exact
  uint64_t history = 0;    // hash of everything that happened
  std::string log;         // when something went wrong
};

// Weights start at 0 and the optimiser is `accumulate`. In round r worker w pushes (w + 1) * (r + element %
// 7) as every element, and of the row-sparse key rows that depend on both: after round r an element is the
// sum over workers and rounds so far, small whole numbers that float32 holds exactly. kLamb updates with the
// same sums and is compared with the published formula.
RoundsResult RunRounds(SimCluster& cluster, const RoundsOptions& options);

// A float32 gradient as a worker's store hands it over: part by part, with residuals of zero.
Frame EncodedAs(const GradientCompression& how, const Frame& gradient, const wire::KeyEntry& entry);

}  // namespace sluice::testing

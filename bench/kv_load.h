// The load that kv_bench puts on a store, and its measurements.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/kvstore.h"

namespace sluice::bench {

enum class Mode : uint8_t { kPush, kPull, kPushPull, kPushThenPull };
const char* Name(Mode mode);
Mode ModeFromName(const std::string& name);  // throws Error(kInvalidArgument)

// What the store does with the sum of the pushes: it assigns it, adds it to the weight, or takes a step of
// SGD with momentum.
enum class Update : uint8_t { kNone, kAccumulate, kSgd };
Update UpdateFromName(const std::string& name);  // throws Error(kInvalidArgument)
void SetUpdate(KVStore& store, Update update);

struct LoadOptions {
  Mode mode = Mode::kPushPull;
  std::vector<int64_t> bytes;  // size of each key; multiples of 4
  size_t calls = 0;            // number of calls in a pass over all keys; 0: one per key
  bool in_place = false;       // push_pull writes its results into the gradients
  Context context = cpu(0);    // where gradients and results lie
  double seconds = 0.5;        // approximate length of a repeat
  int repeats = 5;             // gbit_per_s is the median of these
  int latency_samples = 300;   // upper bound; fewer, at least 20, if they take longer than the repeats
};

struct LoadFigures {
  double gbit_per_s = 0;  // payload per direction, all workers together
  double seconds = 0;     // length of all repeats together
  double gbyte = 0;       // payload per direction, all repeats and all workers together
  int64_t passes = 0;     // passes over all keys
  // Time from issuing one call, with nothing else in flight, until this worker has its result.
  double p50_us = 0, p99_us = 0;
  int latency_samples = 0;
};

// Exchanges one number per worker through a key of the store. It works with any Update: the pushed numbers
// are computed from what the update has made of them. Every method must be called by all workers together.
class Exchange {
 public:
  Exchange(std::shared_ptr<KVStore> store, Update update);
  std::vector<double> Gather(double mine);  // returns all workers' numbers, by rank

 private:
  const std::shared_ptr<KVStore> store_;
  const Update update_;
  std::vector<double> now_, before_;  // the key's value now, and before the last push
};

class Load {
 public:
  // Initialises the keys, whose names are made from the options. `exchange` must outlive the load.
  Load(std::shared_ptr<KVStore> store, const LoadOptions& options, Exchange& exchange);
  // Measures. All workers must call it together. `around_throughput` is called right before and right after
  // the repeats that gbit_per_s covers.
  LoadFigures Run(const std::function<void()>& around_throughput);

 private:
  // The arguments of one call.
  struct Call {
    std::vector<Key> keys;
    std::vector<KVStore::Values> gradients, outs;
  };

  void Issue(const Call& call);
  void Finish(const Call& call);  // waits for the operation issued last on the call's keys
  double Pass();                  // issues every call once, pipelined; returns seconds
  // Runs `work` a few times and returns how often it fits into `seconds` by worker 0's clock; the same number
  // on all workers.
  int64_t Agree(double seconds, const std::function<void()>& work);
  void MeasureLatency(LoadFigures* figures);

  const std::shared_ptr<KVStore> store_;
  const LoadOptions options_;
  Exchange& exchange_;
  // Whether workers have a barrier after each pass; only if they just push large keys. Without it nothing
  // stops a worker from getting further ahead of the others than it could in training, until its pushes have
  // waited so long on the servers that these copy the leased gradients.
  bool meets_ = false;
  std::vector<Call> calls_;
};

}  // namespace sluice::bench

// The load that kv_bench puts on a store, and what it measures of it.
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
Mode ModeFromName(const std::string& name);  // Error(kInvalidArgument)

// What the store does with pushes: assigns their sum, adds it up, or SGD with momentum.
enum class Update : uint8_t { kNone, kAccumulate, kSgd };
Update UpdateFromName(const std::string& name);  // Error(kInvalidArgument)
void SetUpdate(KVStore& store, Update update);

struct LoadOptions {
  Mode mode = Mode::kPushPull;
  std::vector<int64_t> bytes;  // of each key; multiples of 4
  size_t calls = 0;            // that all keys are handed over in; 0: one a key
  bool in_place = false;       // push_pull writes its results into the gradients
  double seconds = 0.5;        // of each repeat, about
  int repeats = 5;             // the median counts
  int latency_samples = 300;   // fewer where they would take longer than the repeats, but some
};

struct LoadFigures {
  double gbit_per_s = 0;  // payload per direction, of all workers together
  double seconds = 0;     // of all repeats together
  double gbyte = 0;       // payload per direction, of all repeats and all workers together
  int64_t passes = 0;     // over all keys
  // Of one call alone, as this worker sees it, until the result is there.
  double p50_us = 0, p99_us = 0;
  int latency_samples = 0;
};

// A number of each worker, told to all through the store, under any Update.
// Every method is called by all workers together.
class Exchange {
 public:
  Exchange(std::shared_ptr<KVStore> store, Update update);
  std::vector<double> Gather(double mine);  // by rank

 private:
  const std::shared_ptr<KVStore> store_;
  const Update update_;
  std::vector<double> now_, before_;  // what the key holds, and held before the last push
};

class Load {
 public:
  // Makes the keys, named after the options. `exchange` outlives the load.
  Load(std::shared_ptr<KVStore> store, const LoadOptions& options, Exchange& exchange);
  // All workers together; `around_throughput` is called right before and after what gbit_per_s covers.
  LoadFigures Run(const std::function<void()>& around_throughput);

 private:
  // What one call hands over.
  struct Call {
    std::vector<Key> keys;
    std::vector<KVStore::Values> gradients, outs;
  };

  void Issue(const Call& call);
  void Finish(const Call& call);  // waits for the operation issued last on its keys
  double Pass();                  // every key once, pipelined; seconds
  // The most that fits into so many seconds by worker 0's clock, when `work` has been done some times.
  int64_t Agree(double seconds, const std::function<void()>& work);
  void MeasureLatency(LoadFigures* figures);

  const std::shared_ptr<KVStore> store_;
  const LoadOptions options_;
  Exchange& exchange_;
  // Whether workers that only push meet after each pass. Nothing else would hold one of them back from
  // running further ahead of the others than any training lets it, until servers copy what they borrow.
  bool meets_ = false;
  std::vector<Call> calls_;
};

}  // namespace sluice::bench

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

struct LoadOptions {
  Mode mode = Mode::kPushPull;
  int64_t bytes = 1 << 20;  // of each key; a multiple of 4
  int64_t keys = 1;
  double seconds = 0.5;  // of each repeat, about
  int repeats = 5;       // the median counts
  int latency_samples = 200;
};

struct LoadFigures {
  double gbit_per_s = 0;          // payload per direction, of all workers together
  double seconds = 0;             // of all repeats together
  double gbyte = 0;               // payload per direction, of all repeats and all workers together
  double p50_us = 0, p99_us = 0;  // of one operation alone, as worker 0 sees it, from the call to the result
};

// A number of each worker, told to all through the store, whose optimiser must be `accumulate` or none.
// Every method is called by all workers together.
class Exchange {
 public:
  Exchange(std::shared_ptr<KVStore> store, bool accumulates);
  std::vector<double> Gather(double mine);  // by rank

 private:
  const std::shared_ptr<KVStore> store_;
  const bool accumulates_;
  std::vector<double> before_;
};

class Load {
 public:
  // Makes the keys, named after the options. `exchange` outlives the load.
  Load(std::shared_ptr<KVStore> store, const LoadOptions& options, Exchange& exchange);
  // All workers together; `around_throughput` is called right before and after what gbit_per_s covers.
  LoadFigures Run(const std::function<void()>& around_throughput);

 private:
  void Issue(int64_t key);
  void Finish(int64_t key);  // waits for the operation issued last on it
  double Pass();             // every key once, pipelined; seconds
  int64_t AgreePasses();

  const std::shared_ptr<KVStore> store_;
  const LoadOptions options_;
  Exchange& exchange_;
  std::vector<Key> names_;
  std::vector<NDArray> gradients_, outs_;
};

}  // namespace sluice::bench

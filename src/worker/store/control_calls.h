// ControlCalls makes the calls of a store that concern the whole job: the optimiser, barriers, leaving.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "worker/store/store_context.h"

namespace sluice::worker {

// Every method waits for other processes. Before, the caller has waited until all operations that it has
// issued were submitted to the client. Thread safety: all methods may be called on any thread.
class ControlCalls {
 public:
  explicit ControlCalls(StoreContext& context) : context_(context) {}

  // Worker 0 sends the configuration to the servers; in async stores the other workers wait until they have
  // it.
  void SetOptimizer(const OptimizerConfig& config, Duration timeout);

  // Returns the timeout of a barrier for that of the call. The minimum leaves time for the status message
  // that names the missing members.
  Duration BarrierTimeout(std::chrono::milliseconds given) const;
  void Barrier(BarrierGroup group, Duration timeout);
  // `ranks` are those of RequireRanks.
  void Barrier(std::vector<uint32_t> ranks, Duration timeout);
  std::string Agree(const std::string& word, Duration timeout);

  int NumDeadNodes();
  // As DistStore::Flush.
  void Flush(Duration timeout);

 private:
  // Waits in the barrier and returns the text of the member with the lowest rank. `members` describes the
  // members in words; barriers are counted for each such set, which gives the barrier its id.
  std::string WaitIn(wire::Barrier barrier, const std::string& members, Duration timeout);

  StoreContext& context_;
  Guarded<std::map<std::string, uint64_t>> barriers_;  // their number, by members
};

}  // namespace sluice::worker

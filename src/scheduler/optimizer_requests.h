// Requests about the optimisers of stores: worker 0 sets each, and others wait for it. One thread: the
// scheduler's loop.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "scheduler/job_key_table.h"
#include "scheduler/relays.h"

namespace sluice::scheduler {

class OptimizerRequests {
 public:
  OptimizerRequests(const Roster& roster, const JobKeyTable& keys, const MessageSender& sender,
                    Relays& relays)
      : roster_(roster), keys_(keys), sender_(sender), relays_(relays) {}

  // Handles a SetOptimizer: checks it, and relays it to the servers.
  void OnSet(Time now, const Member& member, const wire::Message& message, transport::Network& network);
  // Handles an AwaitOptimizer: it is answered once all servers have the optimiser of its store.
  void OnAwait(const Member& member, const wire::Message& message, transport::Network& network);
  // A relay may have ended: `relay` is the result of Relays::OnAck or OnError. When it was a SetOptimizer's,
  // this remembers its answer.
  void OnRelayed(const std::optional<Relay>& relay, transport::Network& network);
  // A worker has left. Once worker 0 has, nobody sets an optimiser any more, and who waits for one is told.
  void OnWorkerLeft(transport::Network& network);

 private:
  using RequestKey = std::pair<uint64_t, uint64_t>;  // incarnation, request id

  Status Validate(const Member& member, const wire::SetOptimizer& request) const;
  bool WorkerZeroHasLeft() const;
  // Answers an AwaitOptimizer with the error that worker 0 has left.
  void RejectAwait(transport::PeerId peer, uint64_t request, transport::Network& network) const;

  const Roster& roster_;
  const JobKeyTable& keys_;
  const MessageSender& sender_;
  Relays& relays_;
  // The answers to the last kAnswersKept SetOptimizer requests.
  static constexpr size_t kAnswersKept = 4096;
  std::map<RequestKey, wire::Body> answered_;
  std::deque<RequestKey> answered_order_;
  std::set<uint32_t> set_;  // stores whose optimiser all servers have
  // The id of each pending AwaitOptimizer request, by store and worker.
  std::map<std::pair<uint32_t, transport::PeerId>, uint64_t> awaited_;
};

}  // namespace sluice::scheduler

// Calls that are requests of their own to the scheduler or a shard, apart from the operations on keys: the
// optimiser, barriers, counters, lists of rows. Each request is repeated until it is answered or its
// deadline has passed.
//
// Thread safety: the client's loop calls everything here, and all callbacks run there. Every `done` is
// called once.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "worker/connection/connection_table.h"
#include "worker/operations/completion_queue.h"
#include "worker/operations/declared_keys.h"
#include "worker/operations/wait_reporter.h"

namespace sluice::worker {

class ControlPlaneRequests {
 public:
  using AnswerDone = membership::ControlRequests::Done;
  using TextDone = std::function<void(const Result<std::string>& text)>;

  // All arguments must outlive this object.
  ControlPlaneRequests(const DeclaredKeys& keys, const ConnectionTable& connections, MessageFactory& messages,
                       CompletionQueue& completions, WaitReporter& waits)
      : keys_(keys),
        connections_(connections),
        messages_(messages),
        completions_(completions),
        waits_(waits) {}

  // Sets the optimiser of the keys of `store` (wire::KeySpec), from each key's next round on. Done when all
  // servers have it. Fails with kPermissionDenied on other workers than worker 0.
  void SetOptimizer(Time now, const OptimizerConfig& config, uint32_t store, Time deadline, Done done,
                    transport::Network& network);
  // Is done when the optimiser that worker 0 has set for `store` is on every server.
  void AwaitOptimizer(Time now, uint32_t store, Time deadline, Done done, transport::Network& network);
  // Is done when all members of the barrier have called it. For a barrier of all nodes (Group::kAll) an
  // empty id is filled in with a count that servers keep as well.
  void Barrier(Time now, wire::Barrier barrier, Time deadline, Done done, transport::Network& network);
  // As Barrier; also returns the text of the member with the lowest rank.
  void Agree(Time now, wire::Barrier barrier, Time deadline, TextDone done, transport::Network& network);
  // Asks for the counters (wire::Stats) of the scheduler or of a shard.
  void GetSchedulerStats(Time now, Time deadline, AnswerDone done, transport::Network& network);
  void GetShardStats(Time now, uint32_t shard, Time deadline, AnswerDone done, transport::Network& network);
  // Lists the rows of a part, in the order in which they were made, from the `first`-th on. The answer is
  // wire::RowIds, which may not hold all of them.
  void GetRowIds(Time now, wire::PartRef part, uint64_t first, Time deadline, AnswerDone done,
                 transport::Network& network);
  // Sends any request; the second form sends it to the scheduler, and `what` names it in messages.
  void Ask(Time now, membership::ControlRequests::Request request, transport::Network& network);
  void Ask(Time now, wire::Body body, std::string what, Time deadline, AnswerDone done,
           transport::Network& network);

  // Returns true when the message answers an open request.
  bool OnAnswer(const wire::Message& message) { return requests_.OnAnswer(message, completions_.list()); }
  void Expire(Time now) { requests_.Expire(now, completions_.list()); }
  void Repeat(Time now, transport::Network& network) { requests_.Repeat(now, messages_.self(), network); }
  Time NextTimer() const { return requests_.NextTimer(); }
  // Ends all requests, and from now on every request, with `failure`.
  void FailAll(const Failure& failure);
  void ReportTo(WaitReporter& waits, Time now) const { requests_.AddTo(&waits.reports(), now); }
  std::string DumpState() const { return requests_.Describe(); }  // one line for each open request

 private:
  const DeclaredKeys& keys_;
  const ConnectionTable& connections_;
  MessageFactory& messages_;
  CompletionQueue& completions_;
  WaitReporter& waits_;
  membership::ControlRequests requests_;
  std::optional<Failure> failure_;  // why every request fails; none: they do not
  uint64_t barriers_of_all_ = 0;
};

}  // namespace sluice::worker

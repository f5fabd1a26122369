// The end of a job, from the first reason for it to the moment at which the scheduler waits for nobody any
// more. One thread: the scheduler's loop.
#pragma once

#include <set>

#include "scheduler/message_sender.h"
#include "scheduler/options.h"

namespace sluice::scheduler {

class JobEnd {
 public:
  // `counters`: a death that is found while the job ends is counted there.
  JobEnd(const Options& options, Roster& roster, const MessageSender& sender, wire::Counters& counters)
      : options_(options), roster_(roster), sender_(sender), counters_(counters) {}

  // Decides the outcome; does nothing when it is decided already. From then on every member receives a Stop,
  // repeated until it has left. Nodes that have yet to join are waited for until `latecomers_until`.
  // `reported_by` is the member whose failure ends the job and which reports that failure itself; null when
  // no other process reports it.
  void Begin(Time now, wire::Stop stop, Time latecomers_until, transport::Network& network,
             const Member* reported_by);
  // From now on no node that has yet to join is waited for.
  void IgnoreLatecomers(Time now);
  // A process that tried to join was told that the job has ended.
  void OnRefused(Time now, uint64_t incarnation);
  void OnTimer(Time now, transport::Network& network);  // while the job is ending
  Time NextTimer() const;                               // while the job is ending

  bool has_begun() const { return begun_; }
  bool done() const { return done_; }
  const wire::Stop& outcome() const { return outcome_; }
  // The Stop that members receive: the outcome, with the roster.
  wire::Stop StopMessage() const;
  Duration Linger() const;

 private:
  void SendStop(Time now, transport::Network& network);
  bool IsAwaited(const Member& member) const;
  bool AllHaveLeft() const;
  void ExpireMembersThatDidNotLeave(Time now);
  void EndUnlessAwaiting(Time now);

  const Options& options_;
  Roster& roster_;
  const MessageSender& sender_;
  wire::Counters& counters_;
  bool begun_ = false;
  bool awaits_no_member_ = false;            // the scheduler waits for no member any more
  std::set<uint64_t> refused_incarnations_;  // incarnations that tried to join since Begin
  bool done_ = false;
  wire::Stop outcome_;
  Time next_stop_{}, stop_deadline_{}, latecomers_until_{};
};

}  // namespace sluice::scheduler

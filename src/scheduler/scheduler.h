// The scheduler's state machine. It owns the rendezvous and the key table, detects deaths, and passes
// requests to its parts: Barriers, Relays and OptimizerRequests for the workers' requests, JobEnd for the end
// of the job. It is deterministic: no clock, no thread, no socket. docs/design/protocol.md describes the
// messages that it receives and sends.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "scheduler/barriers.h"
#include "scheduler/job_end.h"
#include "scheduler/job_key_table.h"
#include "scheduler/message_sender.h"
#include "scheduler/optimizer_requests.h"
#include "scheduler/options.h"
#include "scheduler/partial_declarations.h"
#include "scheduler/relays.h"
#include "scheduler/roster.h"

namespace sluice::scheduler {

class Scheduler final : public transport::StateMachine {
 public:
  explicit Scheduler(const Options& options);

  void OnStart(Time now, transport::Network& network) override;
  void OnMessage(Time now, transport::PeerId from, wire::Message message,
                 transport::Network& network) override;
  void OnClosed(Time now, transport::PeerId peer, transport::Network& network) override;
  void OnTimer(Time now, transport::Network& network) override;
  Time NextTimer() const override;
  bool Done() const override { return end_.done(); }
  Duration Linger() const override { return end_.Linger(); }
  void OnEnd(Time now, const std::string& why, transport::Network& network) override;
  std::string DumpState(Time now) const override;

  // Fails the job with `message`, for example on SIGTERM. Members are still notified;
  // Done() becomes true when they have left, or after Options::failure_timeout.
  void FailJob(Time now, const std::string& message, transport::Network& network);
  // How the job ended. The result is meaningful once Done() is true.
  const wire::Stop& outcome() const { return end_.outcome(); }
  size_t NumDead() const { return roster_.NumDead(); }

 private:
  // joining.cc
  void OnRegister(Time now, transport::PeerId from, const wire::Message& message,
                  transport::Network& network);
  void OnReturn(Time now, transport::PeerId from, Member& member, const wire::Message& message,
                transport::Network& network);
  wire::Welcome WelcomeFor(const Member& member) const;
  void Complete(Time now, transport::Network& network);
  // Sends a Welcome to the servers that wait for the number of their threads.
  void SendThreadCount(transport::Network& network);
  // Answers a message of a process that is no longer a member: a Leave with
  // an Ack, so that the process can end, and any other message with `why`.
  void RejectStale(transport::PeerId from, const wire::Message& message, wire::Stop why,
                   transport::Network& network);

  // scheduler.cc
  void Handle(Time now, transport::PeerId from, Member& member, wire::Message& message,
              transport::Network& network);
  void OnAskedToEnd(const Member& member, transport::Network& network);
  void OnDeclare(Time now, const Member& member, const wire::Message& message, transport::Network& network);
  void OnDeclarePart(const Member& member, const wire::Message& message, transport::Network& network);
  void OnBarrier(const Member& member, const wire::Message& message, transport::Network& network);
  void BroadcastMembership(transport::Network& network);

  // ending.cc
  void OnLeave(Time now, Member& member, const wire::Message& message, transport::Network& network);
  void OnDeath(Time now, const std::vector<const Member*>& dead, const std::string& how,
               transport::Network& network);
  // As JobEnd::Begin; a job that is not complete waits for nodes that have yet to join.
  void StopJob(Time now, wire::Stop stop, transport::Network& network, const Member* reported_by = nullptr);

  const Options options_;
  Roster roster_;
  JobKeyTable keys_;
  wire::Counters counters_;
  MessageSender sender_;
  PartialDeclarations partial_declarations_;
  Barriers barriers_;
  Relays relays_;
  OptimizerRequests optimizer_requests_;
  JobEnd end_;
  LogLimiter limiter_{5, 10s};

  bool complete_ = false;
  bool asked_to_end_ = false;  // a worker received SIGTERM or SIGINT
  Time started_{}, next_report_{};
};

}  // namespace sluice::scheduler

// A worker's part in its job from joining to leaving. The job ends once, for whatever reason; from then on
// failure() says why, and every open and every later call fails with it.
//
// Thread safety: the client's loop calls everything here, and all callbacks run there. Every `done` is
// called once.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "worker/operations/keyed_operations.h"
#include "worker/session/control_plane_requests.h"

namespace sluice::worker {

class JobSession {
 public:
  // What the session connects, drives and ends. All must outlive it.
  struct Parts {
    membership::MembershipClient& membership;
    MessageFactory& messages;
    ConnectionTable& connections;
    OpenOperations& open;
    KeyedOperations& operations;
    ControlPlaneRequests& requests;
    CompletionQueue& completions;
  };
  // `on_job_failed` is that of ClientOptions.
  JobSession(const Parts& parts, std::function<void(const std::string& why)> on_job_failed)
      : parts_(parts), on_job_failed_(std::move(on_job_failed)) {}

  // Calls `done` when the job is complete, or with an error when it ends before.
  void WhenJoined(Done done);
  uint32_t rank() const { return parts_.membership.rank(); }
  size_t NumDead() const { return parts_.membership.NumDead(); }
  // Reports to the other workers that this one was asked to end (membership::Options::on_asked_to_end).
  void AskToEnd(transport::Network& network) { parts_.membership.AskToEnd(network); }
  // Why all calls fail from now on; empty while they do not.
  const std::optional<Failure>& failure() const { return failure_; }

  // Prepares for leaving without an error. Done when the servers have everything that this worker pushed or
  // stored, or with kDeadlineExceeded and the name of what they do not have. Reads in flight end with
  // kCancelled, since the rounds that they wait for may never close.
  void Flush(Time now, Time deadline, Done done, transport::Network& network);
  // Leaves the job. With Outcome::kFinished it first asks every server for its counters, since the death of
  // a server after the last push would go unnoticed. That fails when the job fails meanwhile, or when the
  // scheduler dies before it has acknowledged the leave message. The worker has then not left: call Leave
  // with Outcome::kFailed, which leaves in any case.
  void Leave(Time now, wire::Leave leave, Time deadline, Done done, transport::Network& network);
  bool has_left() const { return has_left_; }

  // --- From the client ---
  // Connects to the shards when the job has become complete, and ends everything when it has ended.
  void OnMembershipChange(transport::Network& network);
  // Ends the calls of Flush that are done or late.
  void CheckFlushed(Time now);
  void OnTimer(Time now, transport::Network& network);
  Time NextTimer() const;
  // Ends all calls with `failure`; does nothing after the first call.
  void End(const Failure& failure);
  std::string DumpState() const;

 private:
  struct FlushCall {
    Time deadline;
    Done done;
  };
  using TimedDone = std::function<void(Time, transport::Network&, const Status&)>;
  void PingServers(Time now, Time deadline, const TimedDone& done, transport::Network& network);
  void SendLeave(Time now, wire::Leave leave, Time deadline, Done done, transport::Network& network);

  const Parts parts_;
  const std::function<void(const std::string& why)> on_job_failed_;
  std::optional<Failure> failure_;
  bool has_left_ = false;
  std::vector<FlushCall> flushes_;  // calls of Flush that are not done
  std::vector<Done> when_joined_;
};

}  // namespace sluice::worker

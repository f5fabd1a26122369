// A server's control machine: it joins the job and passes the scheduler's messages on to the
// shards. All methods run on its loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "kvstore/membership/control_requests.h"
#include "server/shard.h"

namespace sluice::server {

// A shard as the control machine uses it: tasks that are posted to the
// shard's loop, which runs them in order.
struct ShardHandle {
  transport::Loop* loop = nullptr;
  Shard* shard = nullptr;
};

class Control final : public transport::StateMachine {
 public:
  // `self` posts a task to this machine's own loop; the results of the shards come back through it.
  using PostToSelf = std::function<void(std::function<void(Time, transport::Network&)>)>;
  // For a server whose shards run already.
  Control(membership::Options options, std::vector<ShardHandle> shards, PostToSelf self);
  // For a server that starts its shards when the scheduler has decided on their number.
  struct Shards {
    std::vector<ShardHandle> handles;
    std::vector<std::string> addresses;  // one per shard, for the workers
  };
  // Called once, on this machine's loop. A failure ends the job.
  using StartShards = std::function<Result<Shards>(uint32_t count)>;
  Control(membership::Options options, StartShards start, PostToSelf self);

  void OnStart(Time now, transport::Network& network) override;
  void OnMessage(Time now, transport::PeerId from, wire::Message message,
                 transport::Network& network) override;
  void OnEnd(Time now, const std::string& why, transport::Network& network) override;
  void OnRefused(Time now, transport::PeerId peer, transport::Network& network) override;
  void OnTimer(Time now, transport::Network& network) override;
  Time NextTimer() const override;
  bool Done() const override { return done_; }
  std::string DumpState(Time now) const override;

  using Then = std::function<void(const Status&)>;  // called once, on this machine's loop
  // Calls `done` when the job is complete, or with an error (EndedBecause) when it ends before.
  void WhenJoined(Then done);
  // Calls `done` when the other servers (kServers) or all workers and servers (kAll) have called it too, or
  // with an error: the job has ended, or `deadline` has passed.
  void Barrier(Time now, wire::Barrier::Group group, Time deadline, Then done, transport::Network& network);
  uint32_t rank() const { return membership_.rank(); }
  // The error of calls that fail because the job has ended: kUnavailable with the cause
  // when it has failed, else kCancelled.
  Failure EndedBecause() const;

  // Ends the whole job with an error, for example on SIGTERM.
  void Fail(Time now, const std::string& message, transport::Network& network);
  const wire::Stop& outcome() const { return outcome_; }
  size_t NumDead() const { return membership_.NumDead(); }

 private:
  void AfterMembershipChange(Time now,
                             transport::Network& network);  // is called whenever membership_ may have changed
  void Start(Time now, transport::Network& network);
  void OnAnnounce(const wire::Message& message);
  void OnSetOptimizer(const wire::Message& message);
  // Runs `apply` on every shard. When all are done, answers the scheduler's request
  // with Ack or with the first failure.
  void OnAllShards(uint64_t request, std::function<Status(Shard&)> apply);
  void BeginLeaving(Time now, wire::Stop outcome, transport::Network& network);
  void RunCompletions(Time now, transport::Network& network);

  membership::MembershipClient membership_;
  membership::ControlRequests requests_;
  membership::WaitReports reports_;
  uint64_t next_request_ = 2;  // 1 is the id of the leave message
  std::map<wire::Barrier::Group, uint64_t> barriers_;
  std::vector<Then> when_joined_;
  std::vector<membership::ControlRequests::Completion> completions_;
  std::vector<ShardHandle> shards_;
  StartShards start_;  // null once the shards run
  const PostToSelf self_;
  uint64_t sent_epoch_ = 0;                      // the last epoch that the shards have received
  std::map<uint32_t, uint64_t> last_optimizer_;  // by store: id of the request that set the newest optimiser
  bool leaving_ = false;
  bool done_ = false;
  wire::Stop outcome_;
  Time next_leave_{}, leave_deadline_{};
};

}  // namespace sluice::server

// A server's control machine: joins the job, and hands what the scheduler tells on to the shards.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "kvstore/membership/control_requests.h"
#include "server/shard.h"

namespace sluice::server {

// A shard as its control machine sees it: work posted to the shard's loop, in order.
struct ShardHandle {
  transport::Loop* loop = nullptr;
  Shard* shard = nullptr;
};

class Control final : public transport::Machine {
 public:
  // `self` posts to this machine's own loop: how a shard's answer comes back.
  using PostToSelf = std::function<void(std::function<void(Time, transport::Network&)>)>;
  Control(membership::Options options, std::vector<ShardHandle> shards, PostToSelf self);
  // A server that runs as many shards as its job's servers do, which the scheduler says.
  struct Shards {
    std::vector<ShardHandle> handles;
    std::vector<std::string> addresses;  // for workers, one of each
  };
  // On this machine's loop, once. A failure ends the job.
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
  // Once the job is complete, or with the reason why it never will be.
  void WhenJoined(Then done);
  // Waits for the other servers (kServers) or for all workers and servers (kAll).
  void Barrier(Time now, wire::Barrier::Group group, Time deadline, Then done, transport::Network& network);
  uint32_t rank() const { return membership_.rank(); }
  // Of what fails because the job has ended: kUnavailable with the cause of its failure, or kCancelled.
  Failure EndedBecause() const;

  // Ends the whole job from outside, for example on SIGTERM.
  void Fail(Time now, const std::string& message, transport::Network& network);
  const wire::Stop& outcome() const { return outcome_; }
  size_t NumDead() const { return membership_.NumDead(); }

 private:
  void Act(Time now, transport::Network& network);  // after membership may have changed
  void Start(Time now, transport::Network& network);
  void OnAnnounce(const wire::Message& message);
  void OnSetOptimizer(const wire::Message& message);
  // Runs `apply` on every shard; when all are done, answers `request` with Ack or the first failure.
  void OnAllShards(uint64_t request, std::function<Status(Shard&)> apply);
  void BeginLeaving(Time now, wire::Stop outcome, transport::Network& network);
  void RunCompletions(Time now, transport::Network& network);

  membership::Client membership_;
  membership::ControlRequests requests_;
  membership::WaitReports reports_;
  uint64_t next_request_ = 2;  // 1 is the goodbye
  std::map<wire::Barrier::Group, uint64_t> barriers_;
  std::vector<Then> when_joined_;
  std::vector<membership::ControlRequests::Completion> completions_;
  std::vector<ShardHandle> shards_;
  StartShards start_;  // null: they run
  const PostToSelf self_;
  uint64_t told_epoch_ = 0;
  std::map<uint32_t, uint64_t> last_optimizer_;  // request that set the newest optimiser of each store
  bool leaving_ = false;
  bool done_ = false;
  wire::Stop outcome_;
  Time next_leave_{}, leave_deadline_{};
};

}  // namespace sluice::server

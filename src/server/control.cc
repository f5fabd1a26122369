// Control: a server's membership, its barriers, and the scheduler's requests that concern all shards (new
// keys, optimisers, changes of membership).
//
// Everything here runs on the control machine's loop. A shard is reached only by tasks posted to
// its loop, and its results come back as tasks posted to this loop (self_), so no state is shared.
// After BeginLeaving the machine sends nothing but leave messages, until the scheduler acknowledges
// one or kLeaveTimeout has passed.
#include "server/control.h"

#include <atomic>

#include "base/log.h"
#include "base/reported.h"
#include "base/strings.h"

namespace sluice::server {
namespace {

constexpr Duration kLeaveRepeat = 200ms;
constexpr Duration kLeaveTimeout = 2s;  // for the leave message; the scheduler may have ended already
constexpr uint64_t kLeaveId = 1;

}  // namespace

Control::Control(membership::Options options, std::vector<ShardHandle> shards, PostToSelf self)
    : membership_(std::move(options)), shards_(std::move(shards)), self_(std::move(self)) {}

Control::Control(membership::Options options, StartShards start, PostToSelf self)
    : membership_(std::move(options)), start_(std::move(start)), self_(std::move(self)) {}

void Control::OnStart(Time now, transport::Network& network) {
  membership_.OnStart(now, network);
}

void Control::OnMessage(Time now, transport::PeerId from, wire::Message message,
                        transport::Network& network) {
  if (membership_.OnMessage(now, from, message, network)) return AfterMembershipChange(now, network);
  if (from == membership_.scheduler() && requests_.OnAnswer(message, &completions_))
    return RunCompletions(now, network);
  if (from == membership_.scheduler() && leaving_ && std::holds_alternative<wire::Ack>(message.body) &&
      message.in_reply_to == kLeaveId) {
    done_ = true;
    return;
  }
  // While this server is joining, its Welcome is late or lost. Requests are dropped, and the scheduler
  // repeats them: the shards must know the workers before any worker uses a key.
  if (from != membership_.scheduler() || membership_.state() == membership::MemberState::kJoining) return;
  if (std::holds_alternative<wire::AnnounceKeys>(message.body)) return OnAnnounce(message);
  if (std::holds_alternative<wire::SetOptimizer>(message.body)) return OnSetOptimizer(message);
}

void Control::AfterMembershipChange(Time now, transport::Network& network) {
  if (membership_.state() == membership::MemberState::kStopped && !leaving_)
    return BeginLeaving(now, *membership_.stop(), network);
  if (start_ && membership_.server_threads() > 0 && !leaving_) return Start(now, network);
  if (membership_.state() != membership::MemberState::kMember || membership_.epoch() == sent_epoch_) return;
  sent_epoch_ = membership_.epoch();
  for (const ShardHandle& handle : shards_) {
    handle.loop->Post([shard = handle.shard, rank = membership_.rank(), epoch = sent_epoch_,
                       roster = membership_.roster()](Time, transport::Network& shard_network) {
      shard->SetMembership(rank, epoch, roster, shard_network);
    });
  }
  for (const Then& done : std::exchange(when_joined_, {})) done(Status::Ok());
}

void Control::Start(Time now, transport::Network& network) {
  Result<Shards> started = std::exchange(start_, nullptr)(membership_.server_threads());
  if (!started) return BeginLeaving(now, {wire::Stop::Reason::kFailed, started.failure().message}, network);
  shards_ = std::move(started.value().handles);
  membership_.SetShardAddresses(now, std::move(started.value().addresses), network);
}

Failure Control::EndedBecause() const {
  const bool failed = outcome_.reason == wire::Stop::Reason::kFailed;
  return {failed ? ErrorCode::kUnavailable : ErrorCode::kCancelled,
          failed ? outcome_.message : StrCat("the job has ended: ", outcome_.message)};
}

void Control::WhenJoined(Then done) {
  if (leaving_) return done(EndedBecause());
  if (membership_.state() == membership::MemberState::kMember) return done(Status::Ok());
  when_joined_.push_back(std::move(done));
}

void Control::Barrier(Time now, wire::Barrier::Group group, Time deadline, Then done,
                      transport::Network& network) {
  if (leaving_) return done(EndedBecause());
  const uint64_t number = ++barriers_[group];
  const bool all = group == wire::Barrier::Group::kAll;
  wire::Barrier barrier{
      all ? membership::IdOfBarrierOfAll(number) : StrCat("of the servers, ", number), group, {}, {}};
  std::string what = StrCat("barrier '", barrier.id, "'");
  requests_.Ask(now, next_request_++,
                {membership_.scheduler(), std::move(barrier), std::move(what), deadline,
                 [done = std::move(done)](Time, transport::Network&, const Result<wire::Body>& answer) {
                   done(answer ? Status::Ok() : Status(answer.failure()));
                 }},
                membership_, network);
}

void Control::RunCompletions(Time now, transport::Network& network) {
  for (auto& completion : std::exchange(completions_, {})) completion(now, network);
}

void Control::OnAllShards(uint64_t request, std::function<Status(Shard&)> apply) {
  struct Pending {
    size_t left;
    Status status;
  };
  // Used on this machine's loop only.
  const auto pending = std::make_shared<Pending>(Pending{shards_.size(), Status::Ok()});
  for (const ShardHandle& handle : shards_) {
    handle.loop->Post([this, apply, pending, request, shard = handle.shard](Time, transport::Network&) {
      self_([this, pending, request, status = apply(*shard)](Time, transport::Network& network) {
        if (pending->status.ok()) pending->status = status;
        if (--pending->left > 0) return;
        wire::Body answer = wire::Ack{};
        if (!pending->status)
          answer = wire::ErrorReply{pending->status.failure().code, pending->status.failure().message};
        network.Send(membership_.scheduler(), membership_.Make(std::move(answer), 0, request));
      });
    });
  }
}

void Control::OnAnnounce(const wire::Message& message) {
  const auto& entries = std::get<wire::AnnounceKeys>(message.body).entries;
  uint32_t num_shards = static_cast<uint32_t>(shards_.size()) * membership_.options().num_servers;
  for (const wire::KeyEntry& entry : entries) {
    if (const std::string why = plan::InvalidReason(entry, num_shards); !why.empty()) {
      LOG(ERROR) << WrapLogged("the scheduler announced an invalid key, which is ignored: " + why);
      return;
    }
  }
  OnAllShards(message.id, [entries](Shard& shard) { return shard.AddKeys(entries); });
}

void Control::OnSetOptimizer(const wire::Message& message) {
  const auto& set = std::get<wire::SetOptimizer>(message.body);
  // The scheduler numbers its requests upwards. A late repeat of an earlier
  // request must not undo a later one.
  uint64_t& last = last_optimizer_[set.store];
  if (message.id < last) return OnAllShards(message.id, [](Shard&) { return Status::Ok(); });
  last = message.id;
  OnAllShards(message.id,
              [set](Shard& shard) { return shard.SetOptimizer(set.config, set.first_rounds, set.store); });
}

void Control::Fail(Time now, const std::string& message, transport::Network& network) {
  if (!leaving_) BeginLeaving(now, {wire::Stop::Reason::kFailed, message}, network);
}

void Control::OnEnd(Time now, const std::string& why, transport::Network& network) {
  Fail(now, why, network);
}

void Control::BeginLeaving(Time now, wire::Stop outcome, transport::Network& network) {
  leaving_ = true;
  outcome_ = std::move(outcome);
  if (outcome_.reason == wire::Stop::Reason::kFailed) {
    const std::string what = "the job stops: " + outcome_.message;
    LOG(ERROR) << WrapLogged(membership_.stopped_by_scheduler() ? ReportedBy("the scheduler", what) : what);
  }
  membership_.Leave();
  requests_.FailAll(EndedBecause(), &completions_);
  RunCompletions(now, network);
  for (const Then& done : std::exchange(when_joined_, {})) done(EndedBecause());
  // No worker waits for answers once the job has failed.
  const Duration linger = outcome_.reason == wire::Stop::Reason::kFailed ? Duration::zero() : Duration::max();
  for (const ShardHandle& handle : shards_) {
    handle.loop->Post([shard = handle.shard, linger](Time, transport::Network&) { shard->End(linger); });
  }
  leave_deadline_ = membership_.IsRegistered() ? now + kLeaveTimeout : now;
  next_leave_ = now;
  OnTimer(now, network);
}

void Control::OnRefused(Time now, transport::PeerId peer, transport::Network& network) {
  membership_.OnRefused(peer);
  AfterMembershipChange(now, network);
}

void Control::OnTimer(Time now, transport::Network& network) {
  if (!leaving_) {
    membership_.OnTimer(now, network);
    requests_.Expire(now, &completions_);
    requests_.AddTo(&reports_, now);
    for (const std::string& line : reports_.Take(now)) LOG(INFO) << WrapLogged(line);
    requests_.Repeat(now, membership_, network);
    RunCompletions(now, network);
    return AfterMembershipChange(now, network);
  }
  if (now >= leave_deadline_) {
    network.Disconnect(membership_.scheduler());
    done_ = true;
  } else if (now >= next_leave_) {
    next_leave_ = now + kLeaveRepeat;
    const bool finished = outcome_.reason == wire::Stop::Reason::kFinished;
    network.Send(membership_.scheduler(),
                 membership_.Make(
                     wire::Leave{finished ? wire::Leave::Outcome::kFinished : wire::Leave::Outcome::kFailed,
                                 finished ? "" : outcome_.message},
                     kLeaveId));
  }
}

Time Control::NextTimer() const {
  if (done_) return Time::max();
  if (leaving_) return std::min(next_leave_, leave_deadline_);
  return std::min(membership_.NextTimer(), requests_.NextTimer());
}

std::string Control::DumpState(Time now) const {
  return membership_.Describe(now) + requests_.Describe();
}

}  // namespace sluice::server

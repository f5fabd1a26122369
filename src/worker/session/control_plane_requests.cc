// ControlPlaneRequests: requests that are not operations on keys, and what their answers say.
//
// The client's loop calls everything here. ControlRequests repeats the requests. After FailAll no request
// is open, and later ones fail before Ask returns.
#include "worker/session/control_plane_requests.h"

#include "base/strings.h"

namespace sluice::worker {
namespace {

// Passes on whether there is an answer.
membership::ControlRequests::Done StatusOnly(Done done) {
  return [done = std::move(done)](Time, transport::Network&, const Result<wire::Body>& answer) {
    done(answer ? Status::Ok() : Status(answer.failure()));
  };
}

}  // namespace

void ControlPlaneRequests::Ask(Time now, membership::ControlRequests::Request request,
                               transport::Network& network) {
  if (failure_) {
    completions_.Add([done = std::move(request.done), failure = *failure_](Time at, transport::Network& net) {
      done(at, net, failure);
    });
    return completions_.Run(now, network);
  }
  requests_.Ask(now, messages_.TakeId(), std::move(request), messages_.self(), network);
  waits_.Watch(now);
}

void ControlPlaneRequests::Ask(Time now, wire::Body body, std::string what, Time deadline, AnswerDone done,
                               transport::Network& network) {
  Ask(now, {messages_.self().scheduler(), std::move(body), std::move(what), deadline, std::move(done)},
      network);
}

void ControlPlaneRequests::FailAll(const Failure& failure) {
  failure_ = failure;
  requests_.FailAll(failure, completions_.list());
}

void ControlPlaneRequests::SetOptimizer(Time now, const OptimizerConfig& config, uint32_t store,
                                        Time deadline, Done done, transport::Network& network) {
  Ask(now, wire::SetOptimizer{config, keys_.NextRounds(store), store}, "setting the optimiser", deadline,
      StatusOnly(std::move(done)), network);
}

void ControlPlaneRequests::AwaitOptimizer(Time now, uint32_t store, Time deadline, Done done,
                                          transport::Network& network) {
  Ask(now, wire::AwaitOptimizer{store}, "setting the optimiser", deadline, StatusOnly(std::move(done)),
      network);
}

void ControlPlaneRequests::Barrier(Time now, wire::Barrier barrier, Time deadline, Done done,
                                   transport::Network& network) {
  Agree(
      now, std::move(barrier), deadline,
      [done = std::move(done)](const Result<std::string>& text) {
        done(text ? Status::Ok() : Status(text.failure()));
      },
      network);
}

void ControlPlaneRequests::Agree(Time now, wire::Barrier barrier, Time deadline, TextDone done,
                                 transport::Network& network) {
  if (barrier.group == wire::Barrier::Group::kAll && barrier.id.empty())
    barrier.id = membership::IdOfBarrierOfAll(++barriers_of_all_);
  const std::string what = StrCat("barrier '", barrier.id, "'");
  Ask(
      now, std::move(barrier), what, deadline,
      [done = std::move(done)](Time, transport::Network&, const Result<wire::Body>& answer) {
        if (!answer) return done(answer.failure());
        const auto* released = std::get_if<wire::BarrierReleased>(&answer.value());
        done(released != nullptr ? released->text : std::string());
      },
      network);
}

void ControlPlaneRequests::GetSchedulerStats(Time now, Time deadline, AnswerDone done,
                                             transport::Network& network) {
  Ask(now, wire::GetStats{}, "asking the scheduler for statistics", deadline, std::move(done), network);
}

void ControlPlaneRequests::GetShardStats(Time now, uint32_t shard, Time deadline, AnswerDone done,
                                         transport::Network& network) {
  Ask(now,
      {connections_.at(shard).peer(), wire::GetStats{}, StrCat("asking shard ", shard, " for statistics"),
       deadline, std::move(done)},
      network);
}

void ControlPlaneRequests::GetRowIds(Time now, wire::PartRef part, uint64_t first, Time deadline,
                                     AnswerDone done, transport::Network& network) {
  const DeclaredKey& key = *keys_.Find(part.key);
  const uint32_t shard = key.parts.at(part.part).shard;
  Ask(now,
      {connections_.at(shard).peer(), wire::GetRowIds{part, first},
       StrCat("asking shard ", shard, " for the rows of key ", key.name), deadline, std::move(done)},
      network);
}

}  // namespace sluice::worker

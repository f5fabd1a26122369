// ControlCalls: each call runs a call of the client on its loop and waits for its end (StoreContext::Await).
//
// DistStore calls this on the program's threads, without its mutex, so that other calls of the store go on
// meanwhile. A client's call may outlive the wait, so it shares what it writes.
#include "worker/store/control_calls.h"

#include <algorithm>

#include "base/strings.h"

namespace sluice::worker {

void ControlCalls::SetOptimizer(const OptimizerConfig& config, Duration timeout) {
  const uint32_t store = context_.options().number;
  if (context_.rank() == 0) {
    context_.Await(
        "SetOptimizer", timeout,
        [config, timeout, store](Client& client, Time now, transport::Network& network, worker::Done done) {
          client.requests().SetOptimizer(now, config, store, DeadlineOf(now, timeout), std::move(done),
                                         network);
        });
  } else if (context_.options().mode == wire::SyncMode::kAsync) {
    // Async servers refuse pushes before the optimiser is set.
    context_.Await(
        "SetOptimizer", timeout,
        [timeout, store](Client& client, Time now, transport::Network& network, worker::Done done) {
          client.requests().AwaitOptimizer(now, store, DeadlineOf(now, timeout), std::move(done), network);
        });
  }
}

Duration ControlCalls::BarrierTimeout(std::chrono::milliseconds given) const {
  return std::max<Duration>(context_.Timeout(given), 100ms);
}

void ControlCalls::Barrier(BarrierGroup group, Duration timeout) {
  wire::Barrier barrier;
  barrier.group = static_cast<wire::Barrier::Group>(group);
  WaitIn(std::move(barrier), "", timeout);
}

void ControlCalls::Barrier(std::vector<uint32_t> ranks, Duration timeout) {
  wire::Barrier barrier;
  barrier.group = wire::Barrier::Group::kRanks;
  barrier.ranks = std::move(ranks);
  std::vector<std::string> names;
  for (const uint32_t rank : barrier.ranks) names.push_back(std::to_string(rank));
  std::string members = " of workers " + StrJoin(names);
  // A long list is replaced by its length and a hash. Errors still name the members that are missing.
  if (constexpr size_t kShown = 100; members.size() > kShown)
    members = StrCat(" of ", names.size(), " workers (", wire::HashJobId(members), ")");
  WaitIn(std::move(barrier), members, timeout);
}

std::string ControlCalls::Agree(const std::string& word, Duration timeout) {
  wire::Barrier barrier;
  barrier.text = word;
  return WaitIn(std::move(barrier), "", timeout);
}

std::string ControlCalls::WaitIn(wire::Barrier barrier, const std::string& members, Duration timeout) {
  if (barrier.group != wire::Barrier::Group::kAll) {  // the client counts the barriers of all nodes
    const uint64_t number = barriers_.With([&](auto& barriers) { return ++barriers[members]; });
    barrier.id = StrCat("kvstore ", context_.options().number, members, ", barrier ", number);
  }
  const auto text = std::make_shared<std::string>();
  context_.Await(
      "barrier", timeout,
      [barrier, text, timeout](Client& client, Time now, transport::Network& network, worker::Done done) {
        client.requests().Agree(
            now, barrier, DeadlineOf(now, timeout),
            [text, done = std::move(done)](const Result<std::string>& result) {
              if (result) *text = result.value();
              done(result ? Status::Ok() : Status(result.failure()));
            },
            network);
      });
  return *text;
}

int ControlCalls::NumDeadNodes() {
  const auto dead = std::make_shared<size_t>(0);
  context_.Await("NumDeadNodes", context_.Timeout(),
                 [dead](Client& client, Time, transport::Network&, const worker::Done& done) {
                   *dead = client.session().NumDead();
                   done(Status::Ok());
                 });
  return static_cast<int>(*dead);
}

void ControlCalls::Flush(Duration timeout) {
  context_.Await("leaving the job", timeout,
                 [timeout](Client& client, Time now, transport::Network& network, worker::Done done) {
                   client.session().Flush(now, DeadlineOf(now, timeout), std::move(done), network);
                 });
  context_.outstanding().CheckAllBut(ErrorCode::kCancelled);
}

}  // namespace sluice::worker

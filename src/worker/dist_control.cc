// DistStore: calls that concern the whole job: the optimiser, compression, barriers, leaving.
//
// Called by the program's threads. The calls that wait run a call of the client on its loop
// (Await), and hold mutex_ only to read or write the store's fields. They first wait until
// everything issued so far has been submitted.
#include <algorithm>

#include "base/strings.h"
#include "sluice/error.h"
#include "worker/dist_store.h"

namespace sluice::worker {

void DistStore::WaitIssued(Duration timeout) {
  std::vector<Event> waiting;
  {
    const std::lock_guard lock(mutex_);
    ForgetIssued();
    waiting = issuing_;
  }
  kvstore::AwaitAll(waiting, timeout);
}

void DistStore::ForgetIssued() {
  std::erase_if(issuing_, [](const Event& event) { return event.Done(); });
}

void DistStore::SetOptimizer(const OptimizerConfig& config) {
  outstanding_.Check();
  std::shared_ptr<const Optimizer> optimizer = Optimizer::Create(config);
  const Duration timeout = Timeout();
  WaitIssued(timeout);  // the optimiser governs the rounds after everything pushed so far
  if (rank_ == 0) {
    Await("SetOptimizer", timeout,
          [config = optimizer->config(), timeout, store = options_.number](
              Client& client, Time now, transport::Network& network, worker::Done done) {
            client.SetOptimizer(now, config, store, DeadlineOf(now, timeout), std::move(done), network);
          });
  } else if (options_.mode == wire::SyncMode::kAsync) {  // async servers refuse pushes before it is set
    Await("SetOptimizer", timeout,
          [timeout, store = options_.number](Client& client, Time now, transport::Network& network,
                                             worker::Done done) {
            client.AwaitOptimizer(now, store, DeadlineOf(now, timeout), std::move(done), network);
          });
  }
  const std::lock_guard lock(mutex_);
  optimizer_ = std::move(optimizer);
}

void DistStore::SetGradientCompression(const GradientCompression& compression) {
  outstanding_.Check();
  kvstore::RequireValid(compression);
  const std::lock_guard lock(mutex_);
  compression_ = compression;
}

void DistStore::SetUpdater(Updater) {
  throw Error(ErrorCode::kFailedPrecondition,
              "SetUpdater works on local stores; for dist stores write a server program (sluice/server.h) "
              "and start it with launch.py --server-command");
}

void DistStore::Barrier(BarrierGroup group, std::chrono::milliseconds timeout) {
  wire::Barrier barrier;
  barrier.group = static_cast<wire::Barrier::Group>(group);
  WaitIn(std::move(barrier), "", timeout);
}

void DistStore::Barrier(const std::vector<int>& ranks, std::chrono::milliseconds timeout) {
  wire::Barrier barrier;
  barrier.group = wire::Barrier::Group::kRanks;
  barrier.ranks = kvstore::RequireRanks(ranks, rank_, options_.num_workers);
  std::vector<std::string> names;
  for (const uint32_t rank : barrier.ranks) names.push_back(std::to_string(rank));
  std::string members = " of workers " + StrJoin(names);
  // A long list is replaced by its length and a hash. Errors still name the members that are missing.
  if (constexpr size_t kShown = 100; members.size() > kShown)
    members = StrCat(" of ", names.size(), " workers (", wire::HashJobId(members), ")");
  WaitIn(std::move(barrier), members, timeout);
}

std::string DistStore::Agree(const std::string& word, std::chrono::milliseconds timeout) {
  kvstore::RequireWord(word);
  wire::Barrier barrier;
  barrier.text = word;
  return WaitIn(std::move(barrier), "", timeout);
}

std::string DistStore::WaitIn(wire::Barrier barrier, const std::string& members,
                              std::chrono::milliseconds given) {
  // The minimum leaves time for the status message that names the missing members.
  const Duration timeout = std::max<Duration>(Timeout(given), 100ms);
  outstanding_.Check();
  WaitIssued(timeout);
  if (barrier.group != wire::Barrier::Group::kAll) {  // the client counts the barriers of all nodes
    const std::lock_guard lock(mutex_);
    barrier.id = StrCat("kvstore ", options_.number, members, ", barrier ", ++barriers_[members]);
  }
  const auto text = std::make_shared<std::string>();  // shared, since the call may outlive this wait
  Await("barrier", timeout,
        [barrier, text, timeout](Client& client, Time now, transport::Network& network, worker::Done done) {
          client.Agree(
              now, barrier, DeadlineOf(now, timeout),
              [text, done = std::move(done)](const Result<std::string>& result) {
                if (result) *text = result.value();
                done(result ? Status::Ok() : Status(result.failure()));
              },
              network);
        });
  return *text;
}

void DistStore::Flush(Duration timeout) {
  WaitIssued(timeout);
  Await("leaving the job", timeout,
        [timeout](Client& client, Time now, transport::Network& network, worker::Done done) {
          client.Flush(now, DeadlineOf(now, timeout), std::move(done), network);
        });
  outstanding_.CheckAllBut(ErrorCode::kCancelled);
}

int DistStore::NumDeadNodes() {
  const auto dead = std::make_shared<size_t>(0);
  Await("NumDeadNodes", Timeout(),
        [dead](Client& client, Time, transport::Network&, const worker::Done& done) {
          *dead = client.NumDead();
          done(Status::Ok());
        });
  return static_cast<int>(*dead);
}

}  // namespace sluice::worker

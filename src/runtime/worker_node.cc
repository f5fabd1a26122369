#include "runtime/worker_node.h"

#include "base/log.h"
#include "base/strings.h"
#include "runtime/nodes.h"
#include "runtime/process.h"
#include "sluice/error.h"
#include "tensor/stream.h"
#include "worker/dist_store.h"

namespace sluice::runtime {
namespace {

worker::ClientOptions ClientOptionsOf(const JobConfig& config) {
  worker::ClientOptions options;
  options.membership = MembershipOptions(config, RandomBits());
  options.resend_timeout = config.resend_timeout;
  return options;
}

std::exception_ptr ErrorOf(const Status& status) {
  return status.ok() ? nullptr
                     : std::make_exception_ptr(Error(status.failure().code, status.failure().message));
}

// Counted once for a process, however many shards it has.
bool IsOfProcess(const std::string& counter) {
  return ProcessCounters().contains(counter);
}

}  // namespace

WorkerNode::WorkerNode(const JobConfig& config)
    : config_(config), client_(std::make_shared<worker::Client>(ClientOptionsOf(config))) {
  auto context =
      std::make_shared<transport::ZmqContext>(transport::ZmqContextOptions{config.job_id, config.secret, 1});
  loop_ = std::make_unique<transport::ZmqLoop>(context, client_, LoopOptions(config, "worker"));
  const Event joined = Event::Make("joining the job");
  loop_->Post([client = client_, joined](Time, transport::Network&) {
    client->WhenJoined([joined](const Status& status) { joined.Complete(ErrorOf(status)); });
  });
  joined.Wait(config.rendezvous_timeout + 5s);
}

WorkerNode::~WorkerNode() = default;

std::shared_ptr<KVStore> WorkerNode::MakeStore(const std::string& type) {
  const bool async = type.find("async") != std::string::npos;
  const bool device = type.find("device") != std::string::npos;
  worker::DistStore::Options options;
  options.type = type;
  options.mode = async ? wire::SyncMode::kAsync : wire::SyncMode::kSync;
  options.num_workers = config_.num_workers;
  options.number = stores_made_++;
  return std::make_shared<worker::DistStore>(
      options, client_, *loop_,
      device ? collective::MakeDeviceReducer() : collective::MakeHostReducer(config_.reduction_threads));
}

void WorkerNode::Leave(wire::Leave::Outcome outcome, const std::string& message, Duration timeout) {
  const Event left = Event::Make("leaving the job");
  loop_->Post([client = client_, left, outcome, message, timeout](Time now, transport::Network& network) {
    client->Leave(
        now, {outcome, message}, now + timeout,
        [left](const Status& status) { left.Complete(ErrorOf(status)); }, network);
  });
  left.WaitQuietly(timeout + 1s);
  loop_->Join(timeout);
  if (const auto error = left.error(); error != nullptr && outcome == wire::Leave::Outcome::kFinished)
    std::rethrow_exception(error);
}

std::map<std::string, std::map<std::string, uint64_t>> WorkerNode::Stats(Duration timeout) {
  struct Gathered {
    Event done = Event::Make("asking for statistics");
    size_t left = 0;
    Status status;
    std::map<std::string, std::map<std::string, uint64_t>> counters;
  };
  const auto gathered = std::make_shared<Gathered>();
  const auto take = [gathered](std::string name) {
    return [gathered, name](Time, transport::Network&, const Result<wire::Body>& answer) {
      if (!answer) {
        gathered->status = answer.failure();
      } else if (const auto* stats = std::get_if<wire::Stats>(&answer.value())) {
        for (const auto& [counter, value] : stats->counters) {
          uint64_t& sum = gathered->counters[name][counter];
          sum = IsOfProcess(counter) ? value : sum + value;
        }
      }
      if (--gathered->left == 0) gathered->done.Complete(ErrorOf(gathered->status));
    };
  };
  const auto shards_per_server = static_cast<uint32_t>(config_.server_threads);
  loop_->Post([=, client = client_](Time now, transport::Network& network) {
    gathered->left = 1 + client->num_shards();
    client->GetSchedulerStats(now, now + timeout, take("scheduler"), network);
    for (uint32_t shard = 0; shard < client->num_shards(); ++shard) {
      client->GetShardStats(now, shard, now + timeout, take(StrCat("server ", shard / shards_per_server)),
                            network);
    }
  });
  gathered->done.Wait(timeout + 1s);
  return gathered->counters;
}

void WorkerNode::Dump() {
  loop_->Post([client = client_](Time now, transport::Network&) {
    LOG(WARNING) << "state of the worker:\n" << client->DumpState(now);
  });
}

}  // namespace sluice::runtime

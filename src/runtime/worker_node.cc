// A worker's node: it owns the client, the loop that drives it, and the stores.
//
// The program calls it on any thread. The client is used on the loop's thread only: the
// methods post tasks to the loop and wait for an Event. A store holds the client and the loop
// too, and may outlive the node; its calls then fail, since the destructor stops the loop.
#include "runtime/worker_node.h"

#include "base/log.h"
#include "base/strings.h"
#include "runtime/nodes.h"
#include "runtime/process.h"
#include "sluice/error.h"
#include "tensor/stream.h"
#include "transport/address.h"
#include "transport/shm/shared_memory.h"
#include "worker/dependency_executor.h"
#include "worker/store/dist_store.h"

namespace sluice::runtime {
namespace {

worker::ClientOptions ClientOptionsOf(const JobConfig& config, worker::Tracer* tracer,
                                      std::function<void(const std::string&)> on_job_failed,
                                      std::function<void()> on_asked_to_end) {
  worker::ClientOptions options;
  options.membership = MembershipOptions(config, RandomBits());
  options.membership.on_asked_to_end = std::move(on_asked_to_end);
  options.resend_timeout = config.resend_timeout;
  options.tracer = tracer;
  options.on_job_failed = std::move(on_job_failed);
  return options;
}

std::shared_ptr<transport::SharedHeap> HeapOf(const JobConfig& config,
                                              std::shared_ptr<transport::SharedHeap> given) {
  if (!config.shares_memory()) return nullptr;
  return given ? std::move(given) : MakeSharedHeap();
}

}  // namespace

std::shared_ptr<transport::SharedHeap> MakeSharedHeap(transport::SharedHeap::Options options) {
  const std::shared_ptr<PinnedMemory> pinned = Devices::Default()->pinned_memory();
  options.mapped = [pinned](MutableBytes memory) { pinned->Add(memory); };
  options.unmapping = [pinned](MutableBytes memory) { pinned->Remove(memory); };
  options.peer_mapped = [pinned](Bytes memory) { pinned->AddReadOnly(memory); };
  options.peer_unmapping = [pinned](Bytes memory) { pinned->Remove(memory); };
  return std::make_shared<transport::SharedHeap>(std::move(options));
}

WorkerNode::WorkerNode(const JobConfig& config, std::shared_ptr<worker::Tracer> tracer,
                       std::shared_ptr<transport::SharedHeap> heap, std::function<void()> on_asked_to_end)
    : config_(config),
      tracer_(std::move(tracer)),
      heap_(HeapOf(config, std::move(heap))),
      client_(std::make_shared<worker::Client>(ClientOptionsOf(
          config, tracer_.get(),
          [told = scheduler_reason_](const std::string& why) {
            told->With([&](std::string& reason) { reason = why; });
          },
          std::move(on_asked_to_end)))) {
  AwaitSchedulerHostName(config);
  KeepMessageMemory();
  transport::LoopOptions options = LoopOptionsOf(config, "worker");
  options.share_payloads = transport::SharePayloadsOf(heap_);
  options.requires_shared_memory = config.transport == TransportChoice::kShm;
  options.traffic = traffic_;
  loop_ = LoopFactoryOf(config)->Start(client_, options);
  Post([client = client_, joined = joined_](Time, transport::Network&) {
    client->session().WhenJoined([joined](const Status& status) { joined.Complete(status.AsException()); });
  });
}

// The loop is stopped explicitly, because stores that outlive the node keep it alive.
WorkerNode::~WorkerNode() {
  loop_->Stop();
}

void WorkerNode::AwaitJoined() {
  joined_.Wait(config_.rendezvous_timeout + 5s);
}

void WorkerNode::Post(std::function<void(Time, transport::Network&)> task) {
  if (loop_->Post(std::move(task))) return;
  const std::string why = loop_->failure();
  throw Error(ErrorCode::kCancelled,
              StrCat("this worker is no longer in the job", why.empty() ? "" : ": ", why));
}

std::shared_ptr<KVStore> WorkerNode::MakeStore(const StoreType& type) {
  worker::DistStore::Options options;
  options.type = type.Name();
  options.mode = type.async ? wire::SyncMode::kAsync : wire::SyncMode::kSync;
  options.num_workers = config_.num_workers;
  options.number = stores_made_++;
  if (const size_t most = wire::Limits().max_stores; options.number >= most) {
    throw Error(ErrorCode::kResourceExhausted,
                StrCat("this worker has made ", most,
                       " stores, whose keys live as long as the job: make one once, not in a loop"));
  }
  options.timeout = config_.operation_timeout;
  options.tracer = tracer_.get();
  if (heap_) options.memory = heap_;
  options.adopts = heap_ != nullptr;
  const collective::HostWork host_work = [ready = std::make_shared<worker::DependencyExecutor>()](
                                             Context, Label what, std::span<const Event> after,
                                             Stream::Work work) {
    return ready->Enqueue(std::move(what), after, std::move(work));
  };
  options.host_work = host_work;
  const auto store = std::make_shared<worker::DistStore>(
      options, client_, loop_,
      type.on_devices ? collective::MakeDeviceReducer(host_work)
                      : collective::MakeHostReducer(config_.reduction_threads, host_work));
  const MutexLock lock(mutex_);
  stores_.push_back(store);
  return store;
}

void WorkerNode::Flush(Duration timeout) {
  std::vector<std::shared_ptr<worker::DistStore>> stores;
  {
    const MutexLock lock(mutex_);
    stores = stores_;
  }
  for (const auto& store : stores) store->Flush(timeout);
}

void WorkerNode::Leave(wire::Leave::Outcome outcome, const std::string& message, Duration timeout) {
  const Event left = Event::Make("leaving the job");
  Post([client = client_, left, outcome, message, timeout](Time now, transport::Network& network) {
    client->session().Leave(
        now, {outcome, message}, DeadlineOf(now, timeout),
        [left](const Status& status) { left.Complete(status.AsException()); }, network);
  });
  left.WaitQuietly(timeout + 1s);
  if (outcome == wire::Leave::Outcome::kFinished) left.Wait();
  loop_->Join(timeout);
}

std::map<std::string, wire::Counters> WorkerNode::Stats(Duration timeout) {
  struct Gathered {
    Event done = Event::Make("asking for statistics");
    size_t left = 0;
    Status status;
    std::map<std::string, wire::Counters> counters;
  };
  const auto gathered = std::make_shared<Gathered>();
  const auto take = [gathered](std::string name) {
    return [gathered, name](Time, transport::Network&, const Result<wire::Body>& answer) {
      if (!answer) {
        gathered->status = answer.failure();
      } else if (const auto* stats = std::get_if<wire::Stats>(&answer.value())) {
        for (const auto& [counter, value] : stats->counters) gathered->counters[name][counter] += value;
      }
      if (--gathered->left == 0) gathered->done.Complete(gathered->status.AsException());
    };
  };
  const auto num_servers = static_cast<uint32_t>(config_.num_servers);
  Post([=, client = client_](Time now, transport::Network& network) {
    const uint32_t shards_per_server = std::max(client->num_shards() / num_servers, 1u);
    gathered->left = 1 + client->num_shards();
    client->requests().GetSchedulerStats(now, now + timeout, take("scheduler"), network);
    for (uint32_t shard = 0; shard < client->num_shards(); ++shard) {
      client->requests().GetShardStats(now, shard, now + timeout,
                                       take(StrCat("server ", shard / shards_per_server)), network);
    }
  });
  gathered->done.Wait(timeout + 1s);
  return gathered->counters;
}

wire::Counters WorkerNode::OwnStats(Duration timeout) {
  const Event asked = Event::Make("asking this worker for statistics");
  const auto delivered = std::make_shared<uint64_t>();
  Post([client = client_, asked, delivered](Time, transport::Network&) {
    *delivered = client->bytes_copied();
    asked.Complete();
  });
  asked.Wait(timeout);
  wire::Counters counters = NodeCounters(*traffic_);
  counters["bytes_copied"] += *delivered;
  return counters;
}

void WorkerNode::AskToEnd() {
  loop_->Post([client = client_](Time, transport::Network& network) { client->session().AskToEnd(network); });
}

bool WorkerNode::Dump() {
  return post_dump_(*loop_, [client = client_](Time now) {
    LOG(WARNING) << "state of the worker:\n" << client->DumpState(now);
  });
}

}  // namespace sluice::runtime

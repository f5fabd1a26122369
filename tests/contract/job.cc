// Starts scheduler, servers and workers of a job in the test's process, with the classes of the programs.
//
// SLUICE_TRANSPORT chooses the transport, so the same tests run over tcp, ipc and shared memory. Each
// scheduler, control machine and shard has its own loop thread; each worker has a WorkerNode. The timeout for
// resends is so long that a test which needs a resend fails. Tests call Job from the main thread; bodies run
// on one thread per worker.
#include "contract/job.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <utility>

#include "base/strings.h"
#include "collective/reducer.h"
#include "kvstore/local/local_store.h"
#include "runtime/nodes.h"
#include "runtime/process.h"
#include "runtime/worker_node.h"
#include "scheduler/scheduler.h"
#include "server/control.h"
#include "tensor/devices.h"
#include "transport/loop_factory.h"
#include "transport/shm/shared_memory.h"
#include "worker/gradient_stages.h"

namespace sluice::testing {
namespace {

constexpr const char* kJobId = "contract";
constexpr const char* kSecret = "of the contract tests";
constexpr Duration kPatience = 20s;

runtime::TransportChoice TransportOfTests() {
  const std::string name = Env::FromProcess().Get("SLUICE_TRANSPORT", "tcp");
  return name == "shm"   ? runtime::TransportChoice::kShm
         : name == "ipc" ? runtime::TransportChoice::kIpc
                         : runtime::TransportChoice::kTcp;
}

// CMakeLists.txt runs tests with such names over one transport only, so they must not start a
// distributed job.
bool IsNamedAsLocal(const ::testing::TestInfo& test) {
  const std::string_view suite = test.test_suite_name(), name = test.name();
  return suite.ends_with("OfLocalStores") || name.ends_with("/local") || name.ends_with("/device") ||
         name.ends_with("/nccl");
}

}  // namespace

std::vector<std::string> SyncStoreTypes() {
  std::vector<std::string> types = LocalStoreTypes();
  types.insert(types.end(), {"dist_sync", "dist_device_sync"});
  return types;
}

std::vector<std::string> StoreTypes() {
  std::vector<std::string> types = SyncStoreTypes();
  types.insert(types.end(), {"dist_async", "dist_device_async"});
  return types;
}

class Job::Impl {
 public:
  explicit Impl(const JobOptions& options);
  ~Impl();
  void RunShared(const std::function<void(std::shared_ptr<KVStore>)>& body);
  std::shared_ptr<KVStore> MakeStore(int rank, const std::string& type);
  void Leave(int rank);
  void End(int rank, std::shared_ptr<KVStore> store);
  void Flush(int rank);
  std::map<std::string, wire::Counters> Stats();

 private:
  struct Server {
    std::vector<std::shared_ptr<server::Shard>> shards;
    std::vector<std::unique_ptr<transport::ThreadLoop>> shard_loops;
    std::shared_ptr<server::Control> control;
    std::unique_ptr<transport::ThreadLoop> control_loop;
  };
  struct Worker {
    std::unique_ptr<runtime::WorkerNode> node;  // dist only
    std::shared_ptr<KVStore> store;
    bool has_left = false;
  };

  // The test owns the tracer.
  std::shared_ptr<worker::Tracer> UnownedTracer() const { return {std::shared_ptr<void>(), options_.tracer}; }
  bool IsDist() const { return StoreType::Parse(options_.type).distributed; }
  runtime::JobConfig Config(wire::Role role, int rank) const;
  std::string ShardAddress(int server, int thread) const;
  void StartScheduler();
  void StartServer(int rank);
  void StartWorkers();
  static void OnThreads(size_t count, const std::function<void(size_t)>& body);

  const JobOptions options_;
  const runtime::TransportChoice transport_;     // the value of SLUICE_TRANSPORT; default tcp
  std::shared_ptr<transport::SharedHeap> heap_;  // shared by all nodes; null unless transport_ is kShm
  std::shared_ptr<transport::LoopFactory> loops_;
  std::shared_ptr<scheduler::Scheduler> scheduler_;
  std::unique_ptr<transport::ThreadLoop> scheduler_loop_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<Worker> workers_;
};

Job::Impl::Impl(const JobOptions& options) : options_(options), transport_(TransportOfTests()) {
  workers_.resize(static_cast<size_t>(options.workers));
  if (transport_ == runtime::TransportChoice::kShm) {
    Devices::SetDefault(std::make_shared<Devices>(OptionsOfDevices()));
    heap_ = runtime::MakeSharedHeap(transport::SharedHeap::Options{
        .segment_bytes = 1 << 20, .min_leased_bytes = options.min_leased_bytes});
    Devices::Default()->SetMemory(heap_);
  }
  if (IsDist()) {
    if (const auto* test = ::testing::UnitTest::GetInstance()->current_test_info(); IsNamedAsLocal(*test))
      ADD_FAILURE() << "a job of processes in a test that is named as one of local stores alone";
    loops_ = transport::MakeLoopFactory({transport_, kJobId, kSecret});
    StartScheduler();
    for (int rank = 0; rank < options.servers; ++rank) StartServer(rank);
  }
  StartWorkers();
}

Job::Impl::~Impl() {
  for (Worker& worker : workers_) worker.store = nullptr;
  if (!IsDist()) return;
  OnThreads(workers_.size(), [this](size_t rank) {
    if (!workers_[rank].has_left) Leave(static_cast<int>(rank));
  });
  EXPECT_TRUE(scheduler_loop_->Join(kPatience));
  for (const auto& server : servers_) {
    EXPECT_TRUE(server->control_loop->Join(kPatience));
    for (const auto& loop : server->shard_loops) EXPECT_TRUE(loop->Join(kPatience));
  }
}

runtime::JobConfig Job::Impl::Config(wire::Role role, int rank) const {
  runtime::JobConfig config;
  config.role = role;
  config.root_host = "127.0.0.1";
  if (scheduler_loop_) {
    const std::string& address = scheduler_loop_->addresses().front();
    config.root_port = std::stoi(address.substr(address.rfind(':') + 1));
  }
  config.transport = transport_;
  config.num_workers = options_.workers;
  config.num_servers = options_.servers;
  config.server_threads = options_.server_threads;
  config.job_id = kJobId;
  config.secret = kSecret;
  config.requested_rank = rank;
  config.heartbeat_timeout = 60s;  // long, because sanitizers are slow
  config.resend_timeout = 60min;   // no message is lost here, so an operation that needs a resend is a bug
  config.rendezvous_timeout = 60s;
  config.operation_timeout = options_.operation_timeout;
  return config;
}

void Job::Impl::StartScheduler() {
  const runtime::JobConfig config = Config(wire::Role::kScheduler, 0);
  scheduler::Options options;
  options.job = wire::HashJobId(kJobId);
  options.incarnation = runtime::RandomBits();
  options.num_workers = static_cast<uint32_t>(options_.workers);
  options.num_servers = static_cast<uint32_t>(options_.servers);
  options.shards_per_server = static_cast<uint32_t>(options_.server_threads);
  options.bigarray_bound = options_.bigarray_bound;
  options.part_bytes = options_.part_bytes;
  options.heartbeat_timeout = config.heartbeat_timeout;
  scheduler_ = std::make_shared<scheduler::Scheduler>(options);
  transport::LoopOptions loop = runtime::LoopOptionsOf(config, "scheduler");
  loop.bind = {"tcp://127.0.0.1:0"};
  scheduler_loop_ = loops_->Start(scheduler_, loop);
}

std::string Job::Impl::ShardAddress(int server, int thread) const {
  if (transport_ != runtime::TransportChoice::kIpc) return "tcp://127.0.0.1:0";
  return StrCat("ipc://@sluice-contract-", std::hex, runtime::RandomBits(), "-", server, "-", thread);
}

void Job::Impl::StartServer(int rank) {
  const runtime::JobConfig config = Config(wire::Role::kServer, rank);
  auto server = std::make_unique<Server>();
  membership::Options membership = runtime::MembershipOptions(config, runtime::RandomBits());
  std::vector<server::ShardHandle> handles;
  for (int i = 0; i < options_.server_threads; ++i) {
    server::ShardOptions shard;
    shard.job = membership.job;
    shard.incarnation = membership.incarnation;
    shard.thread = static_cast<uint32_t>(i);
    shard.shards_per_server = static_cast<uint32_t>(options_.server_threads);
    if (heap_) shard.memory = heap_;
    server->shards.push_back(std::make_shared<server::Shard>(shard));
    transport::LoopOptions loop = runtime::LoopOptionsOf(config, StrCat("shard ", i));
    loop.limits = wire::LimitsOfShards();
    loop.bind = {ShardAddress(rank, i)};
    loop.share_payloads = transport::SharePayloadsOf(heap_);
    loop.room_bytes = options_.room_bytes.value_or(loop.room_bytes);
    loop.max_queued_bytes = options_.max_queued_bytes.value_or(loop.max_queued_bytes);
    server->shard_loops.push_back(loops_->Start(server->shards.back(), loop));
    membership.shard_addresses.push_back(server->shard_loops.back()->addresses().front());
    handles.push_back({server->shard_loops.back().get(), server->shards.back().get()});
  }
  // The control machine gets its tasks through its own loop, which is created after it: the promise makes a
  // shard's first answer wait for the loop.
  std::promise<transport::ThreadLoop*> started;
  server->control = std::make_shared<server::Control>(
      membership, handles,
      [loop = started.get_future().share()](auto task) { loop.get()->Post(std::move(task)); });
  server->control_loop = loops_->Start(server->control, runtime::LoopOptionsOf(config, "control"));
  started.set_value(server->control_loop.get());
  servers_.push_back(std::move(server));
}

void Job::Impl::StartWorkers() {
  OnThreads(workers_.size(), [this](size_t rank) {
    Worker& worker = workers_[rank];
    if (IsDist()) {
      worker.node = std::make_unique<runtime::WorkerNode>(Config(wire::Role::kWorker, static_cast<int>(rank)),
                                                          UnownedTracer(), heap_);
      worker.node->AwaitJoined();
    }
    worker.store = MakeStore(static_cast<int>(rank), {});
  });
}

std::shared_ptr<KVStore> Job::Impl::MakeStore(int rank, const std::string& type) {
  const StoreType made = StoreType::Parse(type.empty() ? options_.type : type);
  if (IsDist()) return workers_[static_cast<size_t>(rank)].node->MakeStore(made);
  return kvstore::MakeLocalStore(made, 2, 1min);
}

void Job::Impl::RunShared(const std::function<void(std::shared_ptr<KVStore>)>& body) {
  OnThreads(workers_.size(), [&](size_t rank) { body(workers_[rank].store); });
}

void Job::Impl::Flush(int rank) {
  workers_[static_cast<size_t>(rank)].node->Flush(kPatience);
}

std::map<std::string, wire::Counters> Job::Impl::Stats() {
  return workers_.front().node->Stats(kPatience);
}

void Job::Impl::Leave(int rank) {
  Worker& worker = workers_[static_cast<size_t>(rank)];
  worker.has_left = true;
  try {
    Flush(rank);
  } catch (const Error& error) {
    ADD_FAILURE() << "worker " << rank << ": " << error.what();
  }
  worker.node->Leave(wire::Leave::Outcome::kFinished, "", kPatience);
}

void Job::Impl::End(int rank, std::shared_ptr<KVStore> store) {
  Leave(rank);
  Worker& worker = workers_[static_cast<size_t>(rank)];
  worker.store = nullptr;
  store = nullptr;
  worker.node = nullptr;
}

void Job::Impl::OnThreads(size_t count, const std::function<void(size_t)>& body) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) {
    threads.emplace_back([&body, i] {
      try {
        body(i);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "worker " << i << ": " << e.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Job::Job(const JobOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Job::~Job() = default;
void Job::Run(const Body& body) {
  RunShared([&](const std::shared_ptr<KVStore>& store) { body(*store); });
}
void Job::RunShared(const std::function<void(std::shared_ptr<KVStore>)>& body) {
  impl_->RunShared(body);
}
std::shared_ptr<KVStore> Job::MakeStore(int rank, const std::string& type) {
  return impl_->MakeStore(rank, type);
}
void Job::Leave(int rank) {
  impl_->Leave(rank);
}
void Job::End(int rank, std::shared_ptr<KVStore> store) {
  impl_->End(rank, std::move(store));
}
void Job::Flush(int rank) {
  impl_->Flush(rank);
}
std::map<std::string, wire::Counters> Job::Stats() {
  return impl_->Stats();
}

}  // namespace sluice::testing

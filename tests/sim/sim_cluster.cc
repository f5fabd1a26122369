// Starts the machines of a cluster on a SimNetwork, with the options that tests vary.
//
// The incarnation of each process derives from the seed, its role, its rank and its life (how
// often it has been started), so that a run can be repeated. cache_bytes is 0 everywhere: the
// simulated keys are small, and the non-temporal copies of large jobs would not be covered
// otherwise. Everything runs on the test's thread.
#include "sim/sim_cluster.h"

namespace sluice::testing {
namespace {

constexpr uint64_t kJob = 42;

transport::SimOptions NetworkOptions(const SimClusterOptions& options) {
  transport::SimOptions network;
  network.seed = options.seed;
  network.faults = options.faults;
  network.link = options.link;
  network.codec = options.codec;
  network.room_bytes = options.room_bytes.value_or(network.room_bytes);
  network.max_queued_bytes = options.max_queued_bytes.value_or(network.max_queued_bytes);
  network.shares_memory = options.shares_memory;
  network.busy = options.busy;
  return network;
}

}  // namespace

SimCluster::SimCluster(const SimClusterOptions& options)
    : options_(options), network_(NetworkOptions(options)) {
  scheduler::Options scheduler;
  scheduler.job = kJob;
  scheduler.incarnation = DeriveSeed(options.seed, 0);
  scheduler.num_workers = options.workers;
  scheduler.num_servers = options.servers;
  scheduler.shards_per_server = options.shards_per_server;
  if (!options.offered_shards.empty()) scheduler.shards_per_server = std::nullopt;
  scheduler.bigarray_bound = options.bigarray_bound;
  scheduler.part_bytes = options.part_bytes;
  scheduler.heartbeat_timeout = options.heartbeat_timeout;
  scheduler_ = std::make_shared<scheduler::Scheduler>(scheduler);
  scheduler_loop_ = &network_.Start("scheduler", scheduler_);
  servers_.resize(options.servers);
  workers_.resize(options.workers);
  for (uint32_t rank = 0; rank < options.servers; ++rank) StartServer(rank);
  for (uint32_t rank = 0; rank < options.workers - options.late_workers; ++rank) StartWorker(rank);
}

SimCluster::~SimCluster() = default;

membership::Options SimCluster::MembershipOptions(wire::Role role, uint32_t rank, uint64_t life) const {
  membership::Options membership;
  membership.role = role;
  membership.job = kJob;
  membership.incarnation = DeriveSeed(options_.seed, 1, static_cast<uint64_t>(role), rank + (life << 32));
  if (options_.identities) membership.identity = StrCat(role == wire::Role::kWorker ? "w" : "s", rank);
  membership.scheduler_address = scheduler_loop_->addresses().front();
  membership.requested_rank = static_cast<int>(rank);
  membership.host = "sim";
  membership.pid = rank + 1000 * static_cast<uint32_t>(life);
  membership.num_workers = options_.workers;
  membership.num_servers = options_.servers;
  membership.heartbeat_timeout = options_.heartbeat_timeout;
  return membership;
}

server::Control::Shards SimCluster::StartShards(uint32_t rank, uint64_t incarnation, uint32_t count) {
  Server& server = servers_[rank];
  server::Control::Shards started;
  for (uint32_t i = 0; i < count; ++i) {
    server::ShardOptions shard;
    shard.job = kJob;
    shard.cache_bytes = 0;  // covers the path that only large jobs take
    shard.incarnation = incarnation;
    shard.thread = i;
    shard.shards_per_server = count;
    shard.deduplicate = options_.deduplicate;
    if (options_.busy > 0) shard.helpers = {std::make_shared<InlineExecutor>()};
    server.shards.push_back(std::make_shared<server::Shard>(shard));
    const transport::SimLoop* beside = i > 0 ? server.shard_loops[0] : server.control_loop;
    server.shard_loops.push_back(
        &network_.Start(StrCat("server ", rank, " shard ", i), server.shards.back(), beside));
    started.addresses.push_back(server.shard_loops.back()->addresses().front());
    started.handles.push_back({server.shard_loops.back(), server.shards.back().get()});
  }
  return started;
}

void SimCluster::StartServer(uint32_t rank) {
  Server& server = servers_[rank];
  membership::Options membership = MembershipOptions(wire::Role::kServer, rank);
  const auto self = [this, rank](auto task) { servers_[rank].control_loop->Post(std::move(task)); };
  if (!options_.offered_shards.empty()) {
    membership.default_server_threads = options_.offered_shards[rank];
    const auto start = [this, rank, incarnation = membership.incarnation](uint32_t count) {
      return Result<server::Control::Shards>(StartShards(rank, incarnation, count));
    };
    server.control = std::make_shared<server::Control>(membership, start, self);
    server.control_loop = &network_.Start(StrCat("server ", rank), server.control);
    return;
  }
  server::Control::Shards shards = StartShards(rank, membership.incarnation, options_.shards_per_server);
  membership.shard_addresses = std::move(shards.addresses);
  server.control = std::make_shared<server::Control>(membership, std::move(shards.handles), self);
  server.control_loop = &network_.Start(StrCat("server ", rank), server.control, server.shard_loops.front());
}

void SimCluster::StartWorker(uint32_t rank) {
  const uint64_t life = former_workers_.size() + 1;
  if (workers_[rank].client) former_workers_.push_back(workers_[rank]);
  worker::ClientOptions client;
  client.membership = MembershipOptions(wire::Role::kWorker, rank, workers_[rank].client ? life : 0);
  client.resend_timeout = options_.resend_timeout;
  client.cache_bytes = 0;  // covers the path that only large jobs take
  if (options_.on_waiting)
    client.on_waiting = [this, rank](const std::string& line) { options_.on_waiting(rank, line); };
  workers_[rank].client = std::make_shared<worker::Client>(client);
  const bool beside = options_.colocated && rank < servers_.size();
  workers_[rank].loop = &network_.Start(StrCat("worker ", rank), workers_[rank].client,
                                        beside ? servers_[rank].control_loop : nullptr);
}

void SimCluster::OnWorker(uint32_t worker,
                          std::function<void(worker::Client&, Time, transport::Network&)> call) {
  workers_[worker].loop->Post([client = workers_[worker].client.get(), call = std::move(call)](
                                  Time now, transport::Network& network) { call(*client, now, network); });
}

void SimCluster::OnServer(uint32_t server,
                          std::function<void(server::Control&, Time, transport::Network&)> call) {
  servers_[server].control_loop->Post(
      [control = servers_[server].control.get(), call = std::move(call)](
          Time now, transport::Network& network) { call(*control, now, network); });
}

void SimCluster::KillWorker(uint32_t worker) {
  network_.Crash(*workers_[worker].loop);
}

void SimCluster::KillServer(uint32_t server) {
  network_.Crash(*servers_[server].control_loop);
  for (transport::SimLoop* loop : servers_[server].shard_loops) network_.Crash(*loop);
}

void SimCluster::KillScheduler() {
  network_.Crash(*scheduler_loop_);
}

void SimCluster::CutSomebody(Rng& rng, Duration duration) {
  const Worker& worker = workers_[rng.Below(workers_.size())];
  const Server& server = servers_[rng.Below(servers_.size())];
  std::vector<const transport::SimLoop*> other(server.shard_loops.begin(), server.shard_loops.end());
  if (rng.Chance(0.3)) other = {scheduler_loop_};
  network_.Partition({worker.loop}, other, network_.now() + duration);
}

bool SimCluster::Join(Duration deadline) {
  size_t joined = 0;
  for (uint32_t worker = 0; worker < options_.workers; ++worker) {
    OnWorker(worker, [&joined](worker::Client& client, Time, transport::Network&) {
      client.session().WhenJoined([&joined](const Status& status) { joined += status.ok() ? 1 : 0; });
    });
  }
  return network_.RunUntil([&] { return joined == options_.workers; }, network_.now() + deadline);
}

}  // namespace sluice::testing

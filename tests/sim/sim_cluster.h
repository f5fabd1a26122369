// A whole cluster in one thread and in virtual time: the real scheduler, server and worker machines on a
// simulated network. All random choices follow from one seed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"
#include "server/control.h"
#include "transport/sim/sim_network.h"
#include "unit/operations.h"
#include "worker/client.h"

namespace sluice::testing {

struct SimClusterOptions {
  uint64_t seed = 1;
  uint32_t workers = 3;
  uint32_t servers = 2;
  uint32_t shards_per_server = 1;
  // By server: the number of shards that it offers to the scheduler, which decides. Empty: every server has
  // shards_per_server shards.
  std::vector<uint32_t> offered_shards;
  int64_t part_bytes = 1 << 20;
  std::optional<int64_t> bigarray_bound;
  Duration heartbeat_timeout = 10s;
  Duration resend_timeout = 500ms;
  transport::SimFaults faults;
  transport::SimLink link;                               // the link of each host
  std::optional<uint64_t> room_bytes, max_queued_bytes;  // transport::SimOptions; nullopt: its defaults
  bool colocated = false;      // server i runs on the host of worker i, if there is one; else on its own
  double codec = 0.01;         // share of messages that are encoded and decoded; the codec has its own tests
  bool shares_memory = false;  // transport::SimOptions::shares_memory
  double busy = 0;             // probability that a shard waits for more messages before large updates
  bool deduplicate = true;     // server::ShardOptions::deduplicate
  bool identities = false;     // nodes register with "w0", "s1", ..., so that they may be restarted
  // Receives the lines that workers report while they wait; null: they go to the log.
  std::function<void(uint32_t worker, const std::string& line)> on_waiting;
  uint32_t late_workers = 0;  // the last so many workers are not started; the test calls StartWorker
};

class SimCluster {
 public:
  explicit SimCluster(const SimClusterOptions& options);
  ~SimCluster();

  transport::SimNetwork& network() { return network_; }
  scheduler::Scheduler& scheduler() { return *scheduler_; }
  server::Control& control(uint32_t rank) { return *servers_[rank].control; }
  server::Shard& shard(uint32_t server, uint32_t index) { return *servers_[server].shards[index]; }
  worker::Client& client(uint32_t worker) { return *workers_[worker].client; }
  transport::SimLoop& worker_loop(uint32_t worker) { return *workers_[worker].loop; }
  transport::SimLoop& scheduler_loop() { return *scheduler_loop_; }

  // Posts `call` to the loop of a worker or a server; it runs when virtual time goes on.
  void OnWorker(uint32_t worker, std::function<void(worker::Client&, Time, transport::Network&)> call);
  void OnServer(uint32_t server, std::function<void(server::Control&, Time, transport::Network&)> call);
  // These simulate the death of a process: its loops never act again.
  void KillWorker(uint32_t worker);
  void KillServer(uint32_t server);
  void KillScheduler();
  // Starts a late worker, or another process in the place of a worker, with a new incarnation; the former one
  // keeps running unless it was killed. client() and worker_loop() return the new one's from then on.
  void StartWorker(uint32_t rank);
  // Partitions a random worker from a random server's shards, or from the scheduler, for `duration`.
  void CutSomebody(Rng& rng, Duration duration);

  // Runs until all workers have joined. Returns false if the virtual deadline came first.
  bool Join(Duration deadline = 60s);
  const SimClusterOptions& options() const { return options_; }

 private:
  struct Server {
    std::vector<std::shared_ptr<server::Shard>> shards;
    std::vector<transport::SimLoop*> shard_loops;
    std::shared_ptr<server::Control> control;
    transport::SimLoop* control_loop = nullptr;
  };
  struct Worker {
    std::shared_ptr<worker::Client> client;
    transport::SimLoop* loop = nullptr;
  };
  membership::Options MembershipOptions(wire::Role role, uint32_t rank, uint64_t life = 0) const;
  void StartServer(uint32_t rank);
  server::Control::Shards StartShards(uint32_t rank, uint64_t incarnation, uint32_t count);

  const SimClusterOptions options_;
  transport::SimNetwork network_;
  std::shared_ptr<scheduler::Scheduler> scheduler_;
  transport::SimLoop* scheduler_loop_ = nullptr;
  std::vector<Server> servers_;
  std::vector<Worker> workers_;
  std::vector<Worker> former_workers_;
};

}  // namespace sluice::testing

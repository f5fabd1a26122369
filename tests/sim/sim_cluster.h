// A whole cluster in one thread on virtual time: the real scheduler, server and worker machines on a
// simulated network, from one seed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"
#include "server/control.h"
#include "transport/sim/sim_network.h"
#include "worker/client.h"

namespace sluice::testing {

struct SimClusterOptions {
  uint64_t seed = 1;
  uint32_t workers = 3;
  uint32_t servers = 2;
  uint32_t shards_per_server = 1;
  // What each server offers where nobody has set its number of shards; empty: all were told
  // shards_per_server.
  std::vector<uint32_t> offered_shards;
  int64_t part_bytes = 1 << 20;
  std::optional<int64_t> bigarray_bound;
  Duration heartbeat_timeout = 10s;
  Duration resend_timeout = 500ms;
  transport::SimFaults faults;
  transport::SimLink link;                               // of each host
  std::optional<uint64_t> room_bytes, max_queued_bytes;  // of transport::SimOptions
  bool colocated = false;  // server i is on the host of worker i, if there is one; else each has its own
  double codec = 0.01;     // how often messages go through real bytes; the codec has tests of its own
  bool shares_memory = false;
  double busy = 0;  // how often shards put large updates off until more messages have come
  bool deduplicate = true;
  bool identities = false;  // nodes bring "w0", "s1", ... and may be started again
  // Takes what workers say while they wait; null: their logs.
  std::function<void(uint32_t worker, const std::string& line)> on_waiting;
  uint32_t late_workers = 0;  // so many, the last ones, are left to StartWorker
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

  // Runs `call` on the worker's loop.
  void OnWorker(uint32_t worker, std::function<void(worker::Client&, Time, transport::Network&)> call);
  void OnServer(uint32_t server, std::function<void(server::Control&, Time, transport::Network&)> call);
  // A process dies: its loops never act again.
  void KillWorker(uint32_t worker);
  void KillServer(uint32_t server);
  void KillScheduler();
  // A worker that was left out, or another process in a worker's place: with a new incarnation, whatever the
  // former one does. client() and worker_loop() are the new one's from here on.
  void StartWorker(uint32_t rank);
  // Cuts a random pair of nodes apart for a short while; called now and then by scripts that want partitions.
  void CutSomebody(Rng& rng, Duration duration);

  // Until all workers have joined. False: the virtual deadline came first.
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

// A whole job in one process: scheduler and servers over real sockets, one thread for each worker.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/nodes.h"
#include "runtime/worker_node.h"
#include "scheduler/scheduler.h"
#include "server/control.h"
#include "sluice/store_type.h"

namespace sluice::testing {

// The i-th device of a worker. The workers here share a process, but no device: the streams of one worker
// wait for the others' gradients.
inline Context DeviceOf(const KVStore& store, int i = 0) {
  return cpu(10 * store.rank() + i);
}

// On that device.
inline NDArray Filled(const KVStore& store, const Shape& shape, double value, int device = 0,
                      DType dtype = DType::kFloat32) {
  NDArray array = NDArray::Empty(shape, DeviceOf(store, device), dtype);
  array.Fill(value);
  return array;
}

struct JobOptions {
  std::string type = "local";  // of the store
  int workers = 1;             // 1 for stores of one process
  int servers = 2;
  int server_threads = 1;
  std::optional<int64_t> bigarray_bound;
  int64_t part_bytes = 1 << 20;
  size_t min_leased_bytes = 16;                          // over shared memory: nearly all
  std::optional<uint64_t> room_bytes, max_queued_bytes;  // of transport::ZmqLoopOptions, at the servers
  worker::Tracer* tracer = nullptr;                      // of every worker
  std::chrono::milliseconds operation_timeout = std::chrono::minutes(10);
};

class Job {
 public:
  explicit Job(const JobOptions& options);
  ~Job();

  // Runs `body` once for each worker, each on a thread of its own with a store of its own. What a body throws
  // is a failure of the test.
  using Body = std::function<void(KVStore& store)>;
  void Run(const Body& body);
  // As Run, for what takes the store over.
  void RunShared(const std::function<void(std::shared_ptr<KVStore>)>& body);
  // Another store of this worker: the job's type, unless one is named.
  std::shared_ptr<KVStore> MakeStore(int rank, const std::string& type = {});
  // dist only: this worker leaves now, and not with all others at the end.
  void Leave(int rank);
  // The same, and its process ends as far as that can be: its body lets go of its store.
  void End(int rank, std::shared_ptr<KVStore> store);
  void Flush(int rank);  // what comes before; throws Error
  // dist only: of every process that is no worker, by name.
  std::map<std::string, wire::Counters> Stats();

 private:
  struct Server {
    std::vector<std::shared_ptr<server::Shard>> shards;
    std::vector<std::unique_ptr<transport::ZmqLoop>> shard_loops;
    std::shared_ptr<server::Control> control;
    std::unique_ptr<transport::ZmqLoop> control_loop;
  };
  struct Worker {
    std::unique_ptr<runtime::WorkerNode> node;  // dist only
    std::shared_ptr<KVStore> store;
    bool has_left = false;
  };

  bool IsDist() const { return StoreType::Parse(options_.type).distributed; }
  runtime::JobConfig Config(wire::Role role, int rank) const;
  std::string ShardAddress(int server, int thread) const;
  void StartScheduler();
  void StartServer(int rank);
  void StartWorkers();
  static void OnThreads(size_t count, const std::function<void(size_t)>& body);

  const JobOptions options_;
  const runtime::TransportChoice transport_;     // what SLUICE_TRANSPORT says; tcp
  std::shared_ptr<transport::SharedHeap> heap_;  // of all processes that this one plays
  std::shared_ptr<transport::ZmqContext> context_;
  std::shared_ptr<scheduler::Scheduler> scheduler_;
  std::unique_ptr<transport::ZmqLoop> scheduler_loop_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<Worker> workers_;
};

}  // namespace sluice::testing

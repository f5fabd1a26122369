// A worker's connection to its job.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/job_config.h"
#include "sluice/kvstore.h"
#include "sluice/store_type.h"
#include "transport/zmq/zmq_loop.h"
#include "worker/client.h"
#include "worker/dist_store.h"

namespace sluice::runtime {

// Several in one process (tests) need contexts of their own: the stream of a context that two of them use may
// wait for a weight whose round needs a gradient that is queued behind it (docs/design/tensors.md).
class WorkerNode {
 public:
  // Begins to join. `tracer`, which may be null, hears of every gradient's stages and outlives the node and
  // its stores. `heap`, of a config that shares memory: what lies there, as arrays should, is not copied to
  // be read by servers of this host; null: one of its own, for copies. `on_asked_to_end`, which may be null,
  // runs on the loop, once, when a worker of the job was asked to end.
  explicit WorkerNode(const JobConfig& config, worker::Tracer* tracer = nullptr,
                      std::shared_ptr<transport::SharedHeap> heap = nullptr,
                      std::function<void()> on_asked_to_end = nullptr);
  ~WorkerNode();

  // Returns when the job is complete. Throws Error when it never will be.
  void AwaitJoined();
  bool joined() const { return joined_.Succeeded(); }
  std::shared_ptr<KVStore> MakeStore(const StoreType& type);  // of a job
  int rank() const { return static_cast<int>(client_->rank()); }
  // Waits until the servers have all that the stores pushed; throws the first failure that no store has
  // thrown yet. Reads that nobody waited for end with an error.
  void Flush(Duration timeout);
  // Says goodbye and waits until the scheduler has heard it. In good order (kFinished), after Flush, it
  // throws Error when the job has failed meanwhile, or a server or the scheduler does not answer: it has then
  // not been left.
  void Leave(wire::Leave::Outcome outcome, const std::string& message, Duration timeout);
  // The counters of every process of the job but the other workers: "scheduler", "server 0", ... What a
  // server's shards count is added up. Throws Error(kDeadlineExceeded).
  std::map<std::string, wire::Counters> Stats(Duration timeout);
  // This worker's own. Throws Error(kDeadlineExceeded).
  wire::Counters OwnStats(Duration timeout);
  // Why the job has failed, as the scheduler says; empty: it has not, or this worker found out by itself.
  std::string told() const { return told_->Get(); }
  // This worker was asked to end: the others hear it. Nothing where the job is over.
  void AskToEnd();
  // Prints who waits for what; false once the loop has ended.
  bool Dump();
  worker::Client& client() { return *client_; }
  transport::ZmqLoop& loop() { return *loop_; }

 private:
  // Thread-safe.
  class Told {
   public:
    void Set(const std::string& why) {
      const std::lock_guard lock(mutex_);
      why_ = why;
    }
    std::string Get() const {
      const std::lock_guard lock(mutex_);
      return why_;
    }

   private:
    mutable std::mutex mutex_;
    std::string why_;
  };

  // On the loop; throws Error(kCancelled) when it has ended.
  void Post(std::function<void(Time, transport::Network&)> task);

  const JobConfig config_;
  worker::Tracer* const tracer_;
  const std::shared_ptr<transport::SharedHeap> heap_;  // null: no memory is shared
  std::atomic<uint32_t> stores_made_ = 0;
  const std::shared_ptr<Told> told_ = std::make_shared<Told>();
  const std::shared_ptr<worker::Client> client_;
  const std::shared_ptr<transport::TrafficCounters> traffic_ = std::make_shared<transport::TrafficCounters>();
  std::shared_ptr<transport::ZmqLoop> loop_;
  const Event joined_ = Event::Make("joining the job");
  std::mutex mutex_;
  // Guarded by mutex_. Kept, whoever lets go of them: what they pushed is waited for.
  std::vector<std::shared_ptr<worker::DistStore>> stores_;
};

}  // namespace sluice::runtime

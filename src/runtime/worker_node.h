// A worker's connection to its job: the client, its loop and the stores. Public methods are thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "base/mutex.h"
#include "runtime/job_config.h"
#include "runtime/post_once.h"
#include "sluice/kvstore.h"
#include "sluice/store_type.h"
#include "transport/shm/shared_heap.h"
#include "transport/thread_loop.h"
#include "worker/client.h"
#include "worker/store/dist_store.h"

namespace sluice::runtime {

// Makes a heap for a worker's arrays. Its memory is pinned from the first GPU on that the process uses.
std::shared_ptr<transport::SharedHeap> MakeSharedHeap(transport::SharedHeap::Options options = {});

// Several WorkerNodes in one process (tests) need contexts of their own: if two share a context, its stream
// may wait for a weight whose round needs a gradient that is queued behind it (docs/design/tensors.md).
class WorkerNode {
 public:
  // Starts joining the job and returns once the scheduler's host name can be resolved
  // (AwaitSchedulerHostName); throws Error when it cannot. `tracer`, which may be null, receives the
  // stages of every gradient; it must outlive the stores, too. `heap` is the memory that servers of
  // this host may read in place, if the configuration shares memory: arrays in it are not copied before
  // they are read. When it is null, the node makes a heap of its own, for copies. `on_asked_to_end`,
  // which may be null, runs on the loop, once, when a worker of the job was asked to end.
  explicit WorkerNode(const JobConfig& config, std::shared_ptr<worker::Tracer> tracer = nullptr,
                      std::shared_ptr<transport::SharedHeap> heap = nullptr,
                      std::function<void()> on_asked_to_end = nullptr);
  ~WorkerNode();

  // Returns when the job is complete. Throws Error when that is
  // no longer possible, or 5 s after the rendezvous timeout.
  void AwaitJoined();
  bool joined() const { return joined_.Succeeded(); }
  // Makes a distributed store. Throws Error(kResourceExhausted)
  // when this worker has made wire::Limits().max_stores already.
  std::shared_ptr<KVStore> MakeStore(const StoreType& type);
  int rank() const { return static_cast<int>(client_->session().rank()); }
  // Returns when the servers have everything that the stores pushed, and throws the first
  // failure that no store has thrown yet. Reads that no caller waited for end with an error.
  void Flush(Duration timeout);
  // Sends the leave message and returns when the scheduler has acknowledged it, or when `timeout`
  // has passed. Throws Error(kCancelled) when the loop has ended already. With kFinished, for
  // which Flush must come first, it throws Error when the job has failed meanwhile, or when a
  // server or the scheduler does not answer; the job has then not been left.
  void Leave(wire::Leave::Outcome outcome, const std::string& message, Duration timeout);
  // The counters of all processes of the job except the other workers, by name: "scheduler", "server 0",
  // ... The counters of a server's shards are added up. Throws Error(kDeadlineExceeded) after `timeout`.
  std::map<std::string, wire::Counters> Stats(Duration timeout);
  // The counters of this worker. Throws Error(kDeadlineExceeded) after `timeout`.
  wire::Counters OwnStats(Duration timeout);
  // The scheduler's reason for the job's failure; empty when the job
  // has not failed, or when this worker detected the failure itself.
  std::string scheduler_reason() const {
    return scheduler_reason_->With([](const std::string& reason) { return reason; });
  }
  // Call it when this worker was asked to end: the other
  // workers are notified. Does nothing when the job is over.
  void AskToEnd();
  // Logs the client's state, with what each operation waits for; returns false when the loop has ended.
  bool Dump();
  worker::Client& client() { return *client_; }
  transport::ThreadLoop& loop() { return *loop_; }

 private:
  // Runs `task` on the loop; throws Error(kCancelled) when the loop has ended.
  void Post(std::function<void(Time, transport::Network&)> task);

  const JobConfig config_;
  const std::shared_ptr<worker::Tracer> tracer_;       // null: none
  const std::shared_ptr<transport::SharedHeap> heap_;  // null when memory is not shared
  std::atomic<uint32_t> stores_made_ = 0;
  // Empty, or why the scheduler has ended the job. The client on its loop sets it.
  const std::shared_ptr<Guarded<std::string>> scheduler_reason_ = std::make_shared<Guarded<std::string>>();
  const std::shared_ptr<worker::Client> client_;
  const std::shared_ptr<transport::TrafficCounters> traffic_ = std::make_shared<transport::TrafficCounters>();
  std::shared_ptr<transport::ThreadLoop> loop_;
  const PostOnce post_dump_;
  const Event joined_ = Event::Make("joining the job");
  Mutex mutex_;
  // All stores are kept even when the program has released them: Flush waits for what they pushed.
  std::vector<std::shared_ptr<worker::DistStore>> stores_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice::runtime

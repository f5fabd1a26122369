// What a program holds while it runs: its place in the job and its signals. sluice::Init makes one;
// KVStore::Create asks it.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "runtime/job_config.h"
#include "runtime/signals.h"
#include "runtime/worker_node.h"

namespace sluice::runtime {

class Runtime {
 public:
  // Takes over the signals. A worker joins its job with the first distributed store, not here.
  explicit Runtime(const JobConfig& config);
  ~Runtime();

  std::shared_ptr<KVStore> MakeStore(const std::string& type);
  // The worker's node, joined on first use. Error(kFailedPrecondition) outside a job.
  std::shared_ptr<WorkerNode> Node();
  bool HasJoined();
  // Hears of every gradient's stages, once the worker joins. Outlives this and its stores.
  void TraceWith(worker::Tracer* tracer);
  // Leaves in good order: WorkerNode::Flush, then Leave. When it throws, the job has not been left.
  void Finish();
  void Leave(const std::string& why);  // in no good order
  const JobConfig& config() const { return config_; }
  // Of this worker's arrays, so that processes of its host may read them in place: for who makes its devices.
  std::shared_ptr<Allocator> memory() const;

  static std::shared_ptr<Runtime> Default();  // made on first use from the environment
  static void SetDefault(std::shared_ptr<Runtime> runtime);

 private:
  void OnSignal(int number);
  void Dump();
  std::shared_ptr<WorkerNode> NodeIfAny();
  void Forget(const std::shared_ptr<WorkerNode>& node);

  const JobConfig config_;
  const std::shared_ptr<transport::SharedHeap>
      heap_;  // where this worker's arrays lie, if others may read them
  std::mutex mutex_;
  // Guarded by mutex_.
  worker::Tracer* tracer_ = nullptr;
  std::shared_ptr<WorkerNode> node_;

  std::unique_ptr<SignalWatcher> watcher_;
};

}  // namespace sluice::runtime

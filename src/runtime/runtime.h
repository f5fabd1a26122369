// What a program holds while it runs: its place in the job and its signals. sluice::Init makes one;
// KVStore::Create asks it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "runtime/job_config.h"
#include "runtime/signals.h"
#include "runtime/worker_node.h"

namespace sluice::runtime {

class Runtime {
 public:
  // Takes over the signals. A worker joins its job with the first distributed store, not here.
  explicit Runtime(const JobConfig& config);
  ~Runtime();

  std::shared_ptr<KVStore> MakeStore(const StoreType& type);
  // The worker's node, joined on first use. Error(kFailedPrecondition) outside a job.
  std::shared_ptr<WorkerNode> Node();
  bool HasJoined();
  // Whether `failure` is what the scheduler has told this worker of another process's.
  bool WasTold(const std::string& failure);
  // Hears of every gradient's stages, once the worker joins. Outlives this and its stores.
  void TraceWith(worker::Tracer* tracer);
  // Leaves in good order: WorkerNode::Flush, then Leave. When it throws, the job has not been left.
  void Finish();
  void Leave(const std::string& why);  // in no good order
  // sluice::OnTermination.
  void OnTermination(std::function<void(int)> call);
  int ended_by() const { return ended_by_; }  // the signal that asked this process to end; 0: none
  const JobConfig& config() const { return config_; }
  // Of this worker's arrays, so that processes of its host may read them in place: for who makes its devices.
  std::shared_ptr<Allocator> memory() const;

  static std::shared_ptr<Runtime> Default();  // made on first use from the environment
  static void SetDefault(std::shared_ptr<Runtime> runtime);

 private:
  void OnSignal(int number);
  bool EndsInItsTime(int number);
  void RunAtEnd(const std::function<void(int)>& call, int number);
  static void EndIfCalled(int status, void* runtime);
  [[noreturn]] void EndBy(int number);
  [[noreturn]] void EndNow(int status, const std::string& why);
  bool AsksToEnd();
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
  bool finished_ = false;
  std::string told_;  // by the scheduler, before node_ was forgotten

  std::mutex termination_mutex_;
  // Guarded by termination_mutex_.
  std::function<void(int)> on_termination_;
  std::optional<int> asked_to_end_;  // by which signal; 0: another worker was
  StopRequest stop_request_;         // of this process

  std::atomic<int> ended_by_ = 0;
  std::thread at_end_;  // watcher_'s alone: runs on_termination_ while that hears more signals
  std::unique_ptr<SignalWatcher> watcher_;
};

}  // namespace sluice::runtime

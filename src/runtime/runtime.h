// The runtime of a program: its configuration, its place in the job and its signal handling.
// sluice::Init makes the process's Runtime; KVStore::Create uses it. Public methods are thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "runtime/job_config.h"
#include "runtime/signals.h"
#include "runtime/worker_node.h"

namespace sluice::runtime {

class Runtime {
 public:
  // Installs the signal handlers (signals.h) and configures the devices.
  // A worker joins its job with its first distributed store, not here.
  explicit Runtime(const JobConfig& config);
  ~Runtime();

  std::shared_ptr<KVStore> MakeStore(const StoreType& type);
  // The worker's node. The first call joins the job and returns when the job is complete. Throws
  // Error(kFailedPrecondition) outside a job and after Finish, and WorkerNode::AwaitJoined's errors.
  std::shared_ptr<WorkerNode> Node();
  bool HasJoined();
  // True when `failure` contains the reason that the scheduler sent when
  // it ended the job: another process then reports the failure itself.
  bool FailedByScheduler(const std::string& failure);
  // `tracer` receives the stages of every gradient. Call it before
  // the worker joins. The runtime keeps every one that it was given, since stores may outlive their node.
  void TraceWith(std::shared_ptr<worker::Tracer> tracer);
  // Leaves the job as finished: WorkerNode::Flush, then WorkerNode::Leave. Throws
  // their errors; the job has then not been left. Does nothing when no job was joined.
  void Finish();
  // Leaves the job as failed, with `why` as the reason.
  void Leave(const std::string& why);
  // See sluice::OnTermination.
  void OnTermination(std::function<void(int)> call);
  // The signal that asked this process to end; 0 when none did.
  int ended_by() const { return ended_by_; }
  const JobConfig& config() const { return config_; }
  // The allocator for this worker's arrays, for the code that makes its devices.
  // With shared memory, other processes of the host may read the arrays in place.
  std::shared_ptr<Allocator> memory() const;

  // The runtime of the process; made from the environment on first use.
  static std::shared_ptr<Runtime> Default();
  static void SetDefault(std::shared_ptr<Runtime> runtime);

 private:
  void OnSignal(int number);
  bool ProgramHandlesEnd(int number);
  void RunAtEnd(const std::function<void(int)>& call, int number);
  static void EndIfCalled(int status, void* runtime);
  [[noreturn]] void EndBy(int number);
  [[noreturn]] void EndNow(int status, const std::string& why) SLUICE_NOT_ANALYSED;
  bool AsksToEnd();
  void Dump();
  std::shared_ptr<WorkerNode> NodeIfAny();
  void Forget(const std::shared_ptr<WorkerNode>& node);

  const JobConfig config_;
  // The memory of this worker's arrays where other processes may read them; null otherwise.
  const std::shared_ptr<transport::SharedHeap> heap_;
  Mutex mutex_;
  std::vector<std::shared_ptr<worker::Tracer>> tracers_ SLUICE_GUARDED_BY(mutex_);  // the last one counts
  std::shared_ptr<WorkerNode> node_ SLUICE_GUARDED_BY(mutex_);
  bool finished_ SLUICE_GUARDED_BY(mutex_) = false;
  // The scheduler's reason from the last node that was forgotten.
  std::string scheduler_reason_ SLUICE_GUARDED_BY(mutex_);

  Mutex termination_mutex_;
  std::function<void(int)> on_termination_ SLUICE_GUARDED_BY(termination_mutex_);
  // The signal that asked for the end first; 0 when another worker asked.
  std::optional<int> asked_to_end_ SLUICE_GUARDED_BY(termination_mutex_);
  // The last signal that asked this process to end.
  StopRequest stop_request_ SLUICE_GUARDED_BY(termination_mutex_);

  std::atomic<int> ended_by_ = 0;
  // Runs on_termination_ while watcher_ receives more signals. The watcher's thread alone starts it.
  std::thread at_end_;
  std::unique_ptr<SignalWatcher> watcher_;
};

}  // namespace sluice::runtime

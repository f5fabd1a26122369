// The Runtime, and the functions of sluice/runtime.h: Init, Finish, RunProgram, RunServer, OnTermination.
//
// Threads: the program calls the public methods on any thread. OnSignal and what it calls run on
// the signal watcher's thread, which must not block on mutex_: the training thread may hold it,
// so these methods only try to lock it. The callback of OnTermination runs on a thread of its
// own. No lock is held while the worker waits to join, so that signals are handled meanwhile.
#include "runtime/runtime.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "base/cores.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/reported.h"
#include "base/strings.h"
#include "base/threads.h"
#include "base/tool_names.h"
#include "kvstore/local/local_store.h"
#include "runtime/nodes.h"
#include "runtime/process.h"
#include "sluice/error.h"
#include "sluice/runtime.h"
#include "tensor/devices.h"

namespace sluice {
namespace runtime {
namespace {

constexpr Duration kLeaveTimeout = 5s;

// True while this thread runs the callback of OnTermination.
thread_local bool runs_at_end = false;

struct DefaultSlot {
  Mutex mutex;
  std::shared_ptr<Runtime> runtime SLUICE_GUARDED_BY(mutex);
};
DefaultSlot& Slot() {
  static DefaultSlot slot;
  return slot;
}

}  // namespace

Runtime::Runtime(const JobConfig& config)
    : config_(config),
      heap_(config.role == wire::Role::kWorker && config.shares_memory() ? MakeSharedHeap() : nullptr),
      watcher_(std::make_unique<SignalWatcher>([this](int number) { OnSignal(number); })) {
  Devices::Default()->SetMemory(memory());
  Devices::Default()->SetCpuThreads(config.cpu_threads);
  if (config.binds_threads) Devices::Default()->BindThreads();
  Devices::Default()->SetMultipliesBFloat16(config.multiplies_bfloat16);
  Devices::Default()->SetMultipliesTFloat32(config.multiplies_tfloat32);
}

std::shared_ptr<Allocator> Runtime::memory() const {
  if (heap_) return heap_;
  return HeapAllocator();
}

Runtime::~Runtime() {
  {
    const MutexLock lock(mutex_);
    node_ = nullptr;  // the node's loop calls watcher_->Wake()
  }
  watcher_.reset();  // only the watcher's thread starts at_end_
  if (at_end_.joinable()) at_end_.join();
}

std::shared_ptr<Runtime> Runtime::Default() {
  const MutexLock lock(Slot().mutex);
  if (Slot().runtime == nullptr) {
    Slot().runtime =
        LeftInForkedChild(std::make_shared<Runtime>(JobConfig::FromEnv(Env::FromProcess(), CoreCount())));
  }
  return Slot().runtime;
}

void Runtime::SetDefault(std::shared_ptr<Runtime> runtime) {
  const MutexLock lock(Slot().mutex);
  std::swap(Slot().runtime, runtime);
}

std::shared_ptr<WorkerNode> Runtime::Node() {
  if (config_.role != wire::Role::kWorker) {
    throw Error(ErrorCode::kFailedPrecondition,
                StrCat("a distributed store needs a job: start the program with ", LaunchTool(),
                       " -n W -s S PROGRAM ..."));
  }
  std::shared_ptr<WorkerNode> node;
  {
    const MutexLock lock(mutex_);
    if (finished_) {
      throw Error(ErrorCode::kFailedPrecondition,
                  "this worker has left its job (Finish): what needs the job comes before that");
    }
    if (node_ == nullptr)
      node_ = std::make_shared<WorkerNode>(config_, tracers_.empty() ? nullptr : tracers_.back(), heap_,
                                           [this] { watcher_->Wake(); });
    node = node_;
  }
  // The signal may have come before there was a node, or its thread may have found mutex_ locked.
  if (AsksToEnd()) node->AskToEnd();
  try {
    node->AwaitJoined();  // without the lock, so that signals are handled meanwhile
  } catch (...) {
    Forget(node);
    throw;
  }
  return node;
}

bool Runtime::AsksToEnd() {
  const MutexLock lock(termination_mutex_);
  return stop_request_.number != 0 && on_termination_;
}

std::shared_ptr<WorkerNode> Runtime::NodeIfAny() {
  const MutexLock lock(mutex_);
  return node_;
}

void Runtime::Forget(const std::shared_ptr<WorkerNode>& node) {
  const MutexLock lock(mutex_);
  if (node_ != node) return;
  scheduler_reason_ = node->scheduler_reason();
  node_ = nullptr;
}

bool Runtime::HasJoined() {
  const auto node = NodeIfAny();
  return node != nullptr && node->joined();
}

bool Runtime::FailedByScheduler(const std::string& failure) {
  const MutexLock lock(mutex_);
  const std::string told = node_ ? node_->scheduler_reason() : scheduler_reason_;
  return !told.empty() && failure.find(told) != std::string::npos;
}

void Runtime::TraceWith(std::shared_ptr<worker::Tracer> tracer) {
  const MutexLock lock(mutex_);
  tracers_.push_back(std::move(tracer));
}

std::shared_ptr<KVStore> Runtime::MakeStore(const StoreType& type) {
  if (type.distributed) return Node()->MakeStore(type);
  if (config_.role == wire::Role::kWorker) {
    LOG(WARNING) << WrapLogged(
        StrCat("a store of type '", type.Name(),
               "' joins no job: every worker trains alone; dist_sync trains together"));
  }
  return kvstore::MakeLocalStore(type, config_.reduction_threads, config_.operation_timeout);
}

void Runtime::Finish() {
  if (InForkedChild()) return;  // the job is the parent's
  const auto node = NodeIfAny();
  if (node == nullptr) return;
  const Duration timeout = Bounded(config_.operation_timeout);
  node->Flush(timeout);
  // The limit is the operation timeout: a dead process is detected
  // within the heartbeat timeout, and a living one may be busy.
  node->Leave(wire::Leave::Outcome::kFinished, "", timeout);
  Forget(node);
  const MutexLock lock(mutex_);
  finished_ = true;
}

void Runtime::Leave(const std::string& why) {
  if (InForkedChild()) return;
  const auto node = NodeIfAny();
  if (node == nullptr) return;
  Forget(node);
  node->Leave(wire::Leave::Outcome::kFailed, why, kLeaveTimeout);
}

void Runtime::Dump() {
  if (!mutex_.try_lock()) {
    LOG(WARNING) << "state of the worker: it begins to join its job";
    return;
  }
  const MutexLock lock(mutex_, std::adopt_lock);
  if (node_ == nullptr) {
    LOG(WARNING) << "state of the worker: it has joined no job";
  } else if (!node_->Dump()) {
    LOG(WARNING) << "state of the worker: its part in the job has ended";
  }
}

void Runtime::OnTermination(std::function<void(int)> call) {
  std::optional<int> asked;
  {
    const MutexLock lock(termination_mutex_);
    on_termination_ = call;
    asked = asked_to_end_;
  }
  if (asked && call) call(*asked);
}

// Handles the request to end: from signal `number`, or from another worker when it is 0. Returns
// true when the program itself ends this process (OnTermination), false when the caller has to.
bool Runtime::ProgramHandlesEnd(int number) {
  std::function<void(int)> call;
  bool is_first = false;
  {
    const MutexLock lock(termination_mutex_);
    if (number != 0) {
      const Time now = SteadyClock().Now();
      if (on_termination_ && stop_request_.IsSame(number, now)) return true;
      if (std::exchange(stop_request_, {number, now}).number != 0) return false;  // a second signal
      ended_by_ = number;
    }
    is_first = !asked_to_end_;
    if (is_first) asked_to_end_ = number;
    call = on_termination_;
  }
  if (!call) return false;
  if (number != 0) {
    std::cerr << WrapMessage(StrCat(SignalName(number),
                                    ": the program ends as soon as it can; another one, 2 s "
                                    "later, ends it at once"))
              << std::endl;
    // When mutex_ is locked, the worker is joining; Node() asks later.
    if (mutex_.try_lock()) {
      const MutexLock lock(mutex_, std::adopt_lock);
      if (node_ != nullptr) node_->AskToEnd();
    }
  }
  if (!is_first) return true;
  try {
    at_end_ = StartThread("what runs at the end", [this, call, number] { RunAtEnd(call, number); });
  } catch (const Error&) {  // no thread can be started; further signals wait
    RunAtEnd(call, number);
  }
  return true;
}

// `call` may call exit(). Exit handlers run in reverse order of registration, so that EndIfCalled,
// registered here, runs before the destructors of static objects, which other threads still use.
void Runtime::RunAtEnd(const std::function<void(int)>& call, int number) {
  std::string why;
  runs_at_end = on_exit(&EndIfCalled, this) == 0;
  try {
    call(number);
  } catch (const std::exception& e) {
    why = WithLimits(e);
  } catch (...) {
    why = "it threw something that is no std::exception";
  }
  runs_at_end = false;
  if (why.empty()) return;
  why = StrCat("what was to run at the end has failed: ", why);
  std::cerr << WrapMessage(StrCat("error: ", why)) << std::endl;
  number == 0 ? EndNow(EXIT_FAILURE, why) : EndBy(number);
}

void Runtime::EndIfCalled(int status, void* runtime) {
  if (!runs_at_end) return;
  std::cout.flush();
  std::fflush(nullptr);
  static_cast<Runtime*>(runtime)->EndNow(status, "it called exit before it had finished");
}

// Ends the process at once, after it has notified the job. The training
// thread may be anywhere; unfinished files exist only under temporary names
// or none, and HeldFileNames waits up to 2 s until none has a temporary name.
// mutex_ stays locked until the end, so that no other thread joins a job meanwhile.
void Runtime::EndNow(int status, const std::string& why) {
  if (mutex_.try_lock() && node_ != nullptr) {
    try {
      node_->Leave(wire::Leave::Outcome::kFailed, why, 1s);
    } catch (const std::exception&) {  // the job has failed already
    }
  }
  const HeldFileNames names(2s);
  _exit(status);
}

void Runtime::OnSignal(int number) {
  if (number == SIGUSR1) return Dump();
  if (!ProgramHandlesEnd(number) && number != 0) EndBy(number);
}

void Runtime::EndBy(int number) {
  // On a terminal the last line holds "^C", and perhaps a progress bar.
  const bool terminal = isatty(STDERR_FILENO) != 0;
  std::cerr << (terminal ? "\n" : "") << "ended by " << SignalName(number) << std::endl;
  EndNow(kExitSignal + number, StrCat("it was ended by ", SignalName(number)));
}

}  // namespace runtime

std::shared_ptr<KVStore> KVStore::Create(const std::string& type) {
  return LeftInForkedChild(runtime::Runtime::Default()->MakeStore(StoreType::Parse(type)));
}

namespace {

// The program's name in messages.
std::string ProgramOf(int argc, char** argv) {
  const std::string path = argc > 0 && argv != nullptr && argv[0] != nullptr ? argv[0] : "sluice";
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

void Init(int argc, char** argv) {
  const auto config = runtime::JobConfig::FromEnv(Env::FromProcess(), CoreCount());
  InitLogging(ProgramOf(argc, argv), config.verbose);
  if (config.role == wire::Role::kScheduler) std::exit(runtime::RunSchedulerNode(config));
  if (config.role == wire::Role::kServer) std::exit(runtime::RunServerNode(config, {}));
  runtime::Runtime::SetDefault(LeftInForkedChild(std::make_shared<runtime::Runtime>(config)));
}

int Finish() {
  runtime::Runtime::Default()->Finish();
  return 0;
}

void Fail(const std::string& why) noexcept {
  try {
    runtime::Runtime::Default()->Leave(why);
  } catch (const std::exception& e) {  // the job has ended already, or there is none to tell
    VLOG(1) << "leaving the job as failed: " << e.what();
  }
}

void OnTermination(std::function<void(int number)> call) {
  runtime::Runtime::Default()->OnTermination(std::move(call));
}

std::function<bool()> TerminationFlag() {
  const auto asked = std::make_shared<std::atomic<bool>>(false);
  OnTermination([asked](int) { *asked = true; });
  return [asked] { return asked->load(); };
}

namespace {

// Output that could not be written makes the program fail. Where the
// reader of a pipe has gone, SIGPIPE has ended the process before.
void CheckStandardOutput() {
  if (std::cout.flush()) return;
  throw Error(ErrorCode::kUnavailable,
              "standard output could not be written: what this program printed is not complete");
}

}  // namespace

int RunProgram(int argc, char** argv, const std::function<void()>& body) {
  const std::string program = ProgramOf(argc, argv);
  return runtime::RunProcess(program, [&](const runtime::JobConfig&) {
    if (!body) throw Error(ErrorCode::kInvalidArgument, "RunProgram: there is no function to run");
    try {
      Init(argc, argv);
      body();
      CheckStandardOutput();
      return Finish();
    } catch (const std::exception& e) {
      // The job must receive this process's failure: a worker
      // that had joined leaves with the error's message.
      bool joined = false, told = false;
      int signal = 0;
      std::string what = WithLimits(e);
      try {
        const auto runtime = runtime::Runtime::Default();
        signal = runtime->ended_by();
        told = runtime->FailedByScheduler(what);
        if (told) what = ReportedBy("the scheduler", what);
        joined = runtime->HasJoined();
        // The message is printed before the other processes are notified.
        const std::string how = signal != 0 ? StrCat("ended by ", runtime::SignalName(signal)) : "error";
        if (joined || signal != 0)
          std::cerr << WrapMessage(StrCat(program, ": ", how, ": ", what)) << std::endl;
        runtime->Leave(WithLimits(e));
      } catch (const std::exception&) {  // the job has failed already, and its failure is reported
      }
      if (signal != 0) return runtime::kExitSignal + signal;
      // The error's code does not matter here: a failure within a job is not bad usage.
      if (joined) return runtime::kExitFailed;
      if (told) throw Error(ErrorCode::kUnavailable, what);
      throw;
    }
  });
}

namespace {

int Serve(const std::string& program, const std::function<ServerOptions()>& make) {
  return runtime::RunProcess(program, [&](const runtime::JobConfig& config) {
    if (!make)
      throw Error(ErrorCode::kInvalidArgument, "RunServer: there is no function that makes its options");
    const ServerOptions options = make();
    if (config.role != wire::Role::kServer) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("this program is a server, but DMLC_ROLE does not say so; start it with ",
                         LaunchTool(), " --server-command"));
    }
    return runtime::RunServerNode(config, options, runtime::HeldSignals::Programs::kStay);
  });
}

}  // namespace

int RunServer(const ServerOptions& options) {
  return Serve("server", [&] { return options; });
}

int RunServer(int argc, char** argv, const std::function<ServerOptions()>& make) {
  return Serve(ProgramOf(argc, argv), make);
}

}  // namespace sluice

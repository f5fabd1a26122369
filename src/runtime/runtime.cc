#include "runtime/runtime.h"

#include <unistd.h>

#include <csignal>
#include <iostream>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "collective/reducer.h"
#include "kvstore/local_store.h"
#include "runtime/nodes.h"
#include "runtime/process.h"
#include "sluice/error.h"
#include "sluice/runtime.h"
#include "tensor/devices.h"

namespace sluice {
namespace runtime {
namespace {

constexpr Duration kLeaveTimeout = 5s;
constexpr const char* kTypes = "local, device, dist_sync, dist_device_sync, dist_async, dist_device_async";

struct DefaultSlot {
  std::mutex mutex;
  std::shared_ptr<Runtime> runtime;  // guarded by mutex
};
DefaultSlot& Slot() {
  static DefaultSlot slot;
  return slot;
}

}  // namespace

Runtime::Runtime(const JobConfig& config)
    : config_(config),
      heap_(config.role == wire::Role::kWorker && config.shares_memory()
                ? std::make_shared<transport::SharedHeap>()
                : nullptr),
      watcher_(std::make_unique<SignalWatcher>([this](int number) { OnSignal(number); })) {
  Devices::Default()->SetMemory(memory());
  Devices::Default()->SetCpuThreads(config.cpu_threads);
  if (config.binds_threads) Devices::Default()->BindThreads();
  Devices::Default()->SetMultipliesBFloat16(config.multiplies_bfloat16);
}

std::shared_ptr<Allocator> Runtime::memory() const {
  if (heap_) return heap_;
  return HeapAllocator();
}

Runtime::~Runtime() {
  watcher_.reset();
}

std::shared_ptr<Runtime> Runtime::Default() {
  const std::lock_guard lock(Slot().mutex);
  if (Slot().runtime == nullptr) {
    Slot().runtime = std::make_shared<Runtime>(JobConfig::FromEnv(Env::FromProcess(), CoreCount()));
  }
  return Slot().runtime;
}

void Runtime::SetDefault(std::shared_ptr<Runtime> runtime) {
  const std::lock_guard lock(Slot().mutex);
  std::swap(Slot().runtime, runtime);
}

std::shared_ptr<WorkerNode> Runtime::Node() {
  if (config_.role != wire::Role::kWorker) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        "a distributed store needs a job: start the program with tools/launch.py -n W -s S PROGRAM ...");
  }
  std::shared_ptr<WorkerNode> node;
  {
    const std::lock_guard lock(mutex_);
    if (node_ == nullptr) node_ = std::make_shared<WorkerNode>(config_, tracer_, heap_);
    node = node_;
  }
  try {
    node->AwaitJoined();  // without the lock: signals are answered meanwhile
  } catch (...) {
    Forget(node);
    throw;
  }
  return node;
}

std::shared_ptr<WorkerNode> Runtime::NodeIfAny() {
  const std::lock_guard lock(mutex_);
  return node_;
}

void Runtime::Forget(const std::shared_ptr<WorkerNode>& node) {
  const std::lock_guard lock(mutex_);
  if (node_ == node) node_ = nullptr;
}

bool Runtime::HasJoined() {
  const auto node = NodeIfAny();
  return node != nullptr && node->joined();
}

void Runtime::TraceWith(worker::Tracer* tracer) {
  const std::lock_guard lock(mutex_);
  tracer_ = tracer;
}

std::shared_ptr<KVStore> Runtime::MakeStore(const std::string& type) {
  if (type == "local" || type == "device") {
    if (config_.role == wire::Role::kWorker) {
      LOG(WARNING) << WrapLogged(StrCat(
          "a store of type '", type, "' joins no job: every worker trains alone; dist_sync trains together"));
    }
    return std::make_shared<kvstore::LocalStore>(
        type, type == "local" ? collective::MakeHostReducer(config_.reduction_threads)
                              : collective::MakeDeviceReducer());
  }
  for (const char* known : {"dist_sync", "dist_device_sync", "dist_async", "dist_device_async"}) {
    if (type == known) return Node()->MakeStore(type);
  }
  throw Error(ErrorCode::kInvalidArgument,
              StrCat("there is no store type '", type, "'; the types are ", kTypes));
}

void Runtime::Finish() {
  const auto node = NodeIfAny();
  if (node == nullptr) return;
  node->Flush(KVStore::kDefaultTimeout);
  // Who is dead is found to be so within the heartbeat timeout; who lives may be busy.
  node->Leave(wire::Leave::Outcome::kFinished, "", KVStore::kDefaultTimeout);
  Forget(node);
}

void Runtime::Leave(const std::string& why) {
  const auto node = NodeIfAny();
  if (node == nullptr) return;
  Forget(node);
  node->Leave(wire::Leave::Outcome::kFailed, why, kLeaveTimeout);
}

void Runtime::Dump() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    LOG(WARNING) << "state of the worker: it begins to join its job";
  } else if (node_ == nullptr) {
    LOG(WARNING) << "state of the worker: it has joined no job";
  } else if (!node_->Dump()) {
    LOG(WARNING) << "state of the worker: its part in the job has ended";
  }
}

void Runtime::OnSignal(int number) {
  if (number == SIGUSR1) {
    return Dump();
  }
  // The training thread may be anywhere: the others are told, and the process ends here. Files are written
  // under temporary names.
  const bool terminal =
      isatty(STDERR_FILENO) != 0;  // with "^C", and perhaps a progress bar, on its last line
  std::cerr << (terminal ? "\n" : "") << "ended by " << SignalName(number) << std::endl;
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock() && node_ != nullptr) {
    try {
      node_->Leave(wire::Leave::Outcome::kFailed, StrCat("it was ended by ", SignalName(number)), 1s);
    } catch (const std::exception&) {  // the job has failed already: nobody left to tell
    }
  }
  const HeldFileNames names(2s);
  _exit(kExitSignal + number);
}

}  // namespace runtime

std::shared_ptr<KVStore> KVStore::Create(const std::string& type) {
  return runtime::Runtime::Default()->MakeStore(type);
}

void Init(int argc, char** argv) {
  runtime::SpinBriefly(argc, argv);
  const std::string path = argc > 0 ? argv[0] : "sluice";
  const auto config = runtime::JobConfig::FromEnv(Env::FromProcess(), runtime::CoreCount());
  InitLogging(path.substr(path.find_last_of('/') + 1), config.verbose);
  if (config.role == wire::Role::kScheduler) std::exit(runtime::RunSchedulerNode(config));
  if (config.role == wire::Role::kServer) std::exit(runtime::RunServerNode(config, {}));
  runtime::Runtime::SetDefault(std::make_shared<runtime::Runtime>(config));
}

int Finish() {
  runtime::Runtime::Default()->Finish();
  return 0;
}

namespace {

// A result that nobody could read is none; where a reader has left, SIGPIPE ends the process before.
void CheckWhatWasSaid() {
  if (std::cout.flush()) return;
  throw Error(ErrorCode::kUnavailable,
              "standard output could not be written: what this program printed is not complete");
}

}  // namespace

int RunProgram(int argc, char** argv, const std::function<void()>& body) {
  const std::string path = argc > 0 ? argv[0] : "sluice";
  const std::string program = path.substr(path.find_last_of('/') + 1);
  return runtime::RunProcess(program, [&](const runtime::JobConfig&) {
    try {
      Init(argc, argv);
      body();
      CheckWhatWasSaid();
      return Finish();
    } catch (const std::exception& e) {
      // What this process knows, the others hear; whoever joined before it failed leaves with its message.
      bool joined = false;
      try {
        const auto runtime = runtime::Runtime::Default();
        joined = runtime->HasJoined();
        runtime->Leave(e.what());
      } catch (const std::exception&) {  // the job has failed already, and says so
      }
      if (!joined) throw;
      // Whatever its code: what fails within a job is no bad usage.
      std::cerr << WrapMessage(StrCat(program, ": error: ", e.what())) << std::endl;
      return runtime::kExitFailed;
    }
  });
}

int RunServer(const ServerOptions& options) {
  return runtime::RunProcess("server", [&](const runtime::JobConfig& config) {
    if (config.role != wire::Role::kServer) {
      throw Error(ErrorCode::kInvalidArgument,
                  "this program is a server, but DMLC_ROLE does not say so; start it with tools/launch.py "
                  "--server-command");
    }
    return runtime::RunServerNode(config, options);
  });
}

}  // namespace sluice

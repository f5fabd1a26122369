// The contexts' devices, their shares of the cores, and the end of the process.
//
// Each cpu context is given an equal part of the threads; Share() computes the parts anew whenever a context
// is made or the number of threads changes. Work that is still enqueued when the process ends has to finish
// before static objects are destroyed: the first half of this file sees to that, on the main thread's end
// and on exit() from another thread. Everything here may run on any thread of the program.
#include "tensor/devices.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/check.h"
#include "base/cores.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/stream_watcher.h"

namespace sluice {
namespace {

// Holds the default devices: with the tape, the only global state of the tensor library.
struct DefaultSlot {
  Mutex mutex;
  std::shared_ptr<Devices> devices SLUICE_GUARDED_BY(mutex);
};
DefaultSlot& Slot() {
  static DefaultSlot slot;
  return slot;
}

struct DrainOnMainThread {
  ~DrainOnMainThread() {
    if (gettid() == getpid()) Devices::DrainAtEnd();
  }
};

std::atomic<bool> is_ending = false;

thread_local bool is_device_thread = false;

// The on_exit handler. On a device's own thread it flushes the standard streams and
// ends the process: handlers that were registered earlier and destructors of static
// objects do not run, and no device is waited for.
void DrainOrEnd(int status, void*) {
  if (!is_device_thread) return Devices::DrainAtEnd();
  std::fflush(nullptr);
  _exit(status);
}

// Enqueued work that the program has not waited for must finish before the static objects of the libraries
// that compute it (oneDNN's generated code) are destroyed. exit() first destroys the thread-local objects of
// its calling thread, usually the main thread. This one is made before main begins, on the main thread, so
// that it exists whichever thread makes the first array.
void DrainWhenMainEnds() {
  thread_local const DrainOnMainThread at_main_end;
}
[[maybe_unused]] const bool drains_when_main_ends = (DrainWhenMainEnds(), true);

// Registers the handler, which runs before those registered earlier.
bool AddExitHandler() {
  if (on_exit(&DrainOrEnd, nullptr) == 0) return true;
  throw Error(ErrorCode::kResourceExhausted, "no memory to note what the process's end waits for");
}

// For exit() called by another thread.
void DrainAtExit() {
  DrainWhenMainEnds();  // needed if a thread other than main has loaded this library with dlopen
  [[maybe_unused]] static const bool added = AddExitHandler();
}

// Returns the card, which is left to the system if it still exists when the process ends: the CUDA runtime
// ends before the default devices do, and NVIDIA's libraries may crash when they are called after it.
std::shared_ptr<Device> LeftAtTheEnd(std::shared_ptr<Device> card) {
  static auto* const left = new std::vector<std::shared_ptr<Device>>;  // is never destroyed
  Device* const made = card.get();
  return {made, [card = std::move(card)](Device*) mutable {
            Devices::IsEnding() ? left->push_back(std::move(card)) : card.reset();
          }};
}

// Called once a card has been made: the CUDA runtime has registered its own exit handler by then, and this
// one must run before it.
void DrainAtExitBeforeCuda() {
  [[maybe_unused]] static const bool added = AddExitHandler();
}

}  // namespace

std::string Context::ToString() const {
  constexpr const char* kNames[] = {"cpu", "gpu", "cpu_pinned"};
  return StrCat(kNames[static_cast<int>(kind)], "(", id, ")");
}

Devices::Devices(const DevicesOptions& options) : cores_(CoresOfProcess()), options_(options) {}

std::shared_ptr<Device> Devices::Get(Context context) {
  const MutexLock lock(mutex_);
  std::shared_ptr<Device>& device = devices_[context];
  if (device != nullptr) return device;
  if (context.id < 0) throw Error(ErrorCode::kInvalidArgument, StrCat("there is no context ", context));
  if (context.kind == DeviceKind::kGpu) {
    device = LeftAtTheEnd(options_.make_gpu(context.id, options_.multiplies_tfloat32));
    DrainAtExitBeforeCuda();
    pinned_memory_->Begin(context.id);
    ConnectPeers(context.id, *device);
  } else {
    const int threads =
        options_.threads_per_cpu_context > 0 ? options_.threads_per_cpu_context : ThreadsOfNext();
    device = MakeCpuDevice(context.id, {threads}, options_.multiplies_bfloat16, MemoryFor(context.kind));
  }
  if (options_.wrap_device) device = options_.wrap_device(std::move(device));
  if (watcher_ != nullptr) device = Watched(context, std::move(device), watcher_);
  std::shared_ptr<Device> made = device;
  try {
    Share();
  } catch (...) {
    devices_.erase(context);  // a device with no share of the threads is none
    throw;
  }
  return made;
}

// A card reaches the memory of another only when both exist, since to reach a card opens it.
void Devices::ConnectPeers(int id, Device& card) {
  for (const auto& [context, other] : devices_) {
    if (context.kind != DeviceKind::kGpu || context.id == id || other == nullptr) continue;
    card.EnablePeerAccess(context.id);
    other->EnablePeerAccess(id);
  }
}

std::shared_ptr<Allocator> Devices::MemoryFor(DeviceKind kind) const {
  const bool pinned = kind == DeviceKind::kCpuPinned && options_.memory == HeapAllocator();
  return pinned ? pinned_memory_ : options_.memory;
}

int Devices::CpuThreads() const {
  return options_.cpu_threads > 0 ? options_.cpu_threads : CoreCount();
}

// The number of threads that the next context starts with: about what Share() gives it right afterwards,
// since a larger team would start threads that are then not used.
int Devices::ThreadsOfNext() const {
  const auto contexts = std::count_if(devices_.begin(), devices_.end(), [](const auto& entry) {
    return entry.first.kind == DeviceKind::kCpu && entry.second != nullptr;
  });
  return std::max(1, CpuThreads() / (static_cast<int>(contexts) + 1));
}

CpuShare Devices::ShareOf(int context, int contexts) const {
  const int threads = CpuThreads(), cores = static_cast<int>(cores_.size());
  CpuShare share{std::max(1, threads / contexts + (context < threads % contexts))};
  if (!options_.binds_threads || cores == 0) return share;
  const int begin = cores * context / contexts, end = cores * (context + 1) / contexts;
  share.cores.assign(cores_.begin() + begin, cores_.begin() + std::max(end, begin + 1));
  return share;
}

void Devices::Share() {
  if (options_.threads_per_cpu_context > 0) return;
  std::vector<Device*> sharers;
  for (const auto& [context, device] : devices_) {
    if (context.kind == DeviceKind::kCpu && device != nullptr) sharers.push_back(device.get());
  }
  const int contexts = static_cast<int>(sharers.size());
  for (int i = 0; i < contexts; ++i) sharers[static_cast<size_t>(i)]->SetShare(ShareOf(i, contexts));
}

void Devices::SetCpuThreads(int threads) {
  const MutexLock lock(mutex_);
  options_.cpu_threads = threads;
  Share();
}

void Devices::BindThreads() {
  const MutexLock lock(mutex_);
  options_.binds_threads = true;
  Share();
}

void Devices::SetMultipliesBFloat16(std::optional<bool> multiplies) {
  const MutexLock lock(mutex_);
  options_.multiplies_bfloat16 = multiplies;
}

void Devices::SetMultipliesTFloat32(bool multiplies) {
  const MutexLock lock(mutex_);
  options_.multiplies_tfloat32 = multiplies;
}

void Devices::WatchWith(std::shared_ptr<StreamWatcher> watcher) {
  const MutexLock lock(mutex_);
  for (auto& [context, device] : devices_)
    if (device != nullptr) device = Watched(context, std::move(device), watcher);
  watcher_ = std::move(watcher);
}

void Devices::SetMemory(std::shared_ptr<Allocator> memory) {
  const MutexLock lock(mutex_);
  options_.memory = std::move(memory);
}

ArrayBytes ArrayBytesOn(Context context) {
  const BlockBytes bytes = Devices::Default()->Get(context)->allocator()->in_use();
  return {static_cast<int64_t>(bytes.now), static_cast<int64_t>(bytes.most)};
}

void SetThreadsPerCpuContext(int threads) {
  Devices::Default()->SetThreadsPerCpuContext(threads);
}

void Devices::SetThreadsPerCpuContext(int threads) {
  if (threads < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("SetThreadsPerCpuContext: ", threads, " threads; at least 1 is needed"));
  }
  const MutexLock lock(mutex_);
  options_.threads_per_cpu_context = threads;
}

void Devices::DrainAll() {
  std::vector<std::shared_ptr<Device>> devices;
  {
    const MutexLock lock(mutex_);
    for (const auto& [context, device] : devices_) {
      const bool gone = IsEnding() && context.kind == DeviceKind::kGpu;  // LeftAtTheEnd
      if (device != nullptr && !gone) devices.push_back(device);
    }
  }
  std::exception_ptr error;
  for (const auto& device : devices) {
    try {
      device->Drain();
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (error != nullptr) std::rethrow_exception(error);
}

// Operations have told the error of a device that failed.
Devices::~Devices() {
  try {
    DrainAll();
  } catch (const std::exception&) {
    return;
  }
}

std::shared_ptr<Devices> Devices::Default() {
  const MutexLock lock(Slot().mutex);
  DrainAtExit();  // after Slot() has made the slot, so that the handler runs before the slot is destroyed
  if (Slot().devices == nullptr) Slot().devices = LeftInForkedChild(std::make_shared<Devices>());
  return Slot().devices;
}

bool Devices::IsEnding() {
  return is_ending;
}

void Devices::DrainAtEnd() {
  if (InForkedChild()) return;
  std::shared_ptr<Devices> devices;
  {
    const MutexLock lock(Slot().mutex);
    devices = Slot().devices;
  }
  try {
    if (devices != nullptr) devices->DrainAll();
  } catch (const std::exception&) {  // operations have told it
  }
  is_ending = true;
}

void Devices::OnDeviceThread() {
  is_device_thread = true;
}

void Devices::SetDefault(std::shared_ptr<Devices> devices) {
  std::shared_ptr<Devices> old;
  {
    const MutexLock lock(Slot().mutex);
    old = std::exchange(Slot().devices, devices == nullptr ? nullptr : LeftInForkedChild(std::move(devices)));
  }
}

}  // namespace sluice

#include "tensor/devices.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Of the main thread: the one that asks may be bound.
std::vector<int> CoresOfProcess() {
  std::vector<int> cores;
  cpu_set_t set;
  if (sched_getaffinity(getpid(), sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

// The one default that the design allows, beside the tape.
struct DefaultSlot {
  std::mutex mutex;
  std::shared_ptr<Devices> devices;  // guarded by mutex
};
DefaultSlot& Slot() {
  static DefaultSlot slot;
  return slot;
}

struct DrainOnMainThread {
  ~DrainOnMainThread() {
    if (gettid() == getpid()) Devices::DrainDefault();
  }
};

// Work that nobody waited for must be done before the static objects of the libraries that do it (oneDNN's
// generated code) go. exit() first ends the locals of its thread, which is main's unless another calls it:
// for that case, as early as can be told.
void DrainAtExit() {
  thread_local const DrainOnMainThread at_main_end;
  static const bool at_exit = std::atexit(&Devices::DrainDefault) == 0;
  SLUICE_CHECK(at_exit);
}

}  // namespace

std::string Context::ToString() const {
  constexpr const char* kNames[] = {"cpu", "gpu", "cpu_pinned"};
  return StrCat(kNames[static_cast<int>(kind)], "(", id, ")");
}

Devices::Devices(const DevicesOptions& options) : cores_(CoresOfProcess()), options_(options) {}

std::shared_ptr<Device> Devices::Get(Context context) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Device>& device = devices_[context];
  if (device != nullptr) return device;
  if (context.id < 0) throw Error(ErrorCode::kInvalidArgument, StrCat("there is no context ", context));
  const bool fixed = options_.threads_per_cpu_context > 0;
  device = context.kind == DeviceKind::kGpu
               ? MakeGpuDevice(context.id)
               : MakeCpuDevice(context.id, {fixed ? options_.threads_per_cpu_context : CpuThreads()},
                               options_.multiplies_bfloat16, options_.memory);
  if (options_.stand_in) device = options_.stand_in(std::move(device));
  const std::shared_ptr<Device> made = device;
  Share();
  return made;
}

int Devices::CpuThreads() const {
  return options_.cpu_threads > 0 ? options_.cpu_threads : std::max(1, static_cast<int>(cores_.size()));
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
  const std::lock_guard lock(mutex_);
  options_.cpu_threads = threads;
  Share();
}

void Devices::BindThreads() {
  const std::lock_guard lock(mutex_);
  options_.binds_threads = true;
  Share();
}

void Devices::SetMultipliesBFloat16(std::optional<bool> multiplies) {
  const std::lock_guard lock(mutex_);
  options_.multiplies_bfloat16 = multiplies;
}

void Devices::SetMemory(std::shared_ptr<Allocator> memory) {
  const std::lock_guard lock(mutex_);
  options_.memory = std::move(memory);
}

void Devices::SetThreadsPerCpuContext(int threads) {
  const std::lock_guard lock(mutex_);
  options_.threads_per_cpu_context = threads;
}

void Devices::DrainAll() {
  std::vector<std::shared_ptr<Device>> devices;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [context, device] : devices_) {
      if (device != nullptr) devices.push_back(device);
    }
  }
  for (const auto& device : devices) device->stream().Drain();
}

std::shared_ptr<Devices> Devices::Default() {
  const std::lock_guard lock(Slot().mutex);
  DrainAtExit();  // after the slot was made: what is made first goes last
  if (Slot().devices == nullptr) Slot().devices = std::make_shared<Devices>();
  return Slot().devices;
}

void Devices::DrainDefault() {
  std::shared_ptr<Devices> devices;
  {
    const std::lock_guard lock(Slot().mutex);
    devices = Slot().devices;
  }
  if (devices != nullptr) devices->DrainAll();
}

void Devices::SetDefault(std::shared_ptr<Devices> devices) {
  std::shared_ptr<Devices> old;
  {
    const std::lock_guard lock(Slot().mutex);
    old = std::exchange(Slot().devices, std::move(devices));
  }
}

}  // namespace sluice

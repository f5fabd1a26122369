// The devices of this process: for each context a stream, an allocator and kernels.
//
// One Devices object is the default, made on first use (or put in place by the Runtime); arrays keep what
// they need of it alive. Thread safety: all methods.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "sluice/context.h"
#include "tensor/kernels.h"
#include "tensor/stream.h"

namespace sluice {

// What a cpu context computes with.
struct CpuShare {
  int threads = 1;
  std::vector<int> cores = {};  // that its threads may run on; empty: as the thread that makes the context
  bool operator==(const CpuShare&) const = default;
};

// One context's share of the machine.
class Device {
 public:
  virtual ~Device() = default;
  virtual Stream& stream() = 0;
  virtual const std::shared_ptr<Allocator>& allocator() = 0;
  // Host memory for what goes with arrays and operations: their storages, events and graph nodes.
  virtual const std::shared_ptr<Allocator>& records() = 0;
  virtual Kernels& kernels() = 0;  // to be used on the stream only
  // For what is enqueued from here on; for cpu contexts.
  virtual void SetShare(const CpuShare& /*share*/) {}
};

// cpu/ makes cpu(i); one of the twins cuda/ and no_cuda/ makes gpu(i).
// multiplies_bfloat16 and memory as in DevicesOptions.
std::shared_ptr<Device> MakeCpuDevice(int id, const CpuShare& share,
                                      std::optional<bool> multiplies_bfloat16 = std::nullopt,
                                      const std::shared_ptr<Allocator>& memory = HeapAllocator());
std::shared_ptr<Device> MakeGpuDevice(int id);

struct DevicesOptions {
  int cpu_threads = 0;              // that all cpu(i) share; 0: one for each core that the process may use
  int threads_per_cpu_context = 0;  // of each, shared or not; 0: the share
  bool binds_threads = false;       // Devices::BindThreads
  // Whether cpu(i) rounds factors to bfloat16 where layers whose weights are bfloat16 allow it
  // (Arithmetic::kBFloat16); empty: where that is faster, which is with AMX's tiles.
  std::optional<bool> multiplies_bfloat16 = std::nullopt;
  std::shared_ptr<Allocator> memory = HeapAllocator();  // of arrays on cpu(i)
  // What stands in for each device made: for who measures streams. Null: the device itself.
  std::function<std::shared_ptr<Device>(std::shared_ptr<Device>)> stand_in = nullptr;
};

class Devices {
 public:
  explicit Devices(const DevicesOptions& options = {});
  // Drains: the last array of a device may otherwise go on the device's own thread, which cannot wait for
  // itself.
  ~Devices() { DrainAll(); }

  // Made on first use. Throws for gpu(i) that cannot be used, and says why: tensor/gpus.h.
  std::shared_ptr<Device> Get(Context context);
  // How many threads all cpu(i) share. Each has an equal part, at least one thread: when another context
  // comes, the parts of all become smaller. Sums over many elements may differ in their last bit with it.
  void SetCpuThreads(int threads);
  // From now on the threads of each cpu(i) run on cores of its own: those that the process may use are
  // divided as the threads are. Where there are fewer cores than contexts, contexts share one.
  void BindThreads();
  // Of cpu contexts made from now on: DevicesOptions::multiplies_bfloat16.
  void SetMultipliesBFloat16(std::optional<bool> multiplies);
  // Of cpu contexts made from now on: DevicesOptions::memory.
  void SetMemory(std::shared_ptr<Allocator> memory);
  // How many threads each cpu context made from now on may use; those that exist keep theirs, and nothing is
  // shared. Call it before the first array.
  void SetThreadsPerCpuContext(int threads);
  // Waits for everything enqueued.
  void DrainAll();

  static std::shared_ptr<Devices> Default();
  // Waits for what the default devices, if there are any, still do.
  static void DrainDefault();
  // The calling thread is a device's own from here on. Should it call exit(), as OpenMP does where the system
  // gives no threads, the process ends at once with that code: nobody can wait for the thread then.
  static void OnDeviceThread();
  // For tests: what Default() returns from here on; null: a new one on next use.
  static void SetDefault(std::shared_ptr<Devices> devices);

 private:
  // With the lock.
  void Share();
  int CpuThreads() const;
  int ThreadsOfNext() const;
  CpuShare ShareOf(int context, int contexts) const;

  const std::vector<int> cores_;  // that the process may use
  std::mutex mutex_;
  // Guarded by mutex_.
  DevicesOptions options_;
  std::map<Context, std::shared_ptr<Device>> devices_;
};

}  // namespace sluice

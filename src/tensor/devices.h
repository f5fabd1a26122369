// The devices of this process: for each context a stream, an allocator and kernels.
//
// One Devices object is the default, made on first use; the Runtime configures it. Arrays keep their device
// alive. Thread safety: all methods of Devices may be called from any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "sluice/context.h"
#include "tensor/pinned_memory.h"
#include "tensor/stream.h"

namespace sluice {

class Kernels;        // tensor/kernels.h
class StreamWatcher;  // tensor/stream_watcher.h

// The threads and cores that a cpu context computes with.
struct CpuShare {
  int threads = 1;
  std::vector<int> cores = {};  // its threads run on these; empty: on the cores of the thread that makes it
  bool operator==(const CpuShare&) const = default;
};

// A stream of a device and the kernels that work on it may call.
struct DeviceStream {
  Stream& stream;
  Kernels& kernels;
};

// One context's streams, allocators and kernels.
class Device {
 public:
  virtual ~Device() = default;
  virtual Stream& stream() = 0;
  virtual const std::shared_ptr<Allocator>& allocator() = 0;
  // Allocates host memory for the records of arrays and operations: storages, events and graph nodes.
  virtual const std::shared_ptr<Allocator>& records() = 0;
  virtual Kernels& kernels() = 0;  // to be called by work on the stream only
  // Streams for copies to and from memory of the host, beside which the stream computes.
  virtual DeviceStream to_host() { return {stream(), kernels()}; }
  virtual DeviceStream from_host() { return {stream(), kernels()}; }
  // A stream for copies of values that have been delivered from outside. Nothing that waits comes there.
  virtual DeviceStream delivered() { return {stream(), kernels()}; }
  // A stream for operations of several devices at once (collective/nccl/). Throws as MakeGpuDevice does.
  virtual DeviceStream collective() { return {stream(), kernels()}; }
  // Waits for everything enqueued on every stream so far. Throws the error of a card that is lost.
  virtual void Drain() { stream().Drain(); }
  // An array whose memory is given back while operations on it are still under way leaves their events here,
  // just before. The next array of that memory takes them, just after it has got it: its first use waits for
  // them. Nothing is left where operations keep their arrays until they are done, as on cpu contexts.
  virtual void LeaveUses(const void* /*memory*/, std::span<const Event> /*uses*/) {}
  virtual Events TakeUses(const void* /*memory*/) { return {}; }
  // Lets copies between this card and the other one go directly, over NVLink or PCIe, where the machine can.
  virtual void EnablePeerAccess(int /*other*/) {}
  // Sets the share for work that is enqueued from here on. Only cpu contexts have one. Devices calls it with
  // its mutex held. Throws Error(kResourceExhausted) where the system does not give the additional threads.
  virtual void SetShare(const CpuShare& /*share*/) {}
};

// MakeCpuDevice is implemented in cpu/, MakeGpuDevice in cuda/ or no_cuda/, whichever the build uses.
// For multiplies_bfloat16, multiplies_tfloat32 and memory see DevicesOptions. MakeCpuDevice throws
// Error(kResourceExhausted) where the system does not give the threads or memory, and Error(kUnavailable)
// where multiplies_bfloat16 is true and the processor lacks AVX-512.
std::shared_ptr<Device> MakeCpuDevice(int id, const CpuShare& share,
                                      std::optional<bool> multiplies_bfloat16 = std::nullopt,
                                      const std::shared_ptr<Allocator>& memory = HeapAllocator());
std::shared_ptr<Device> MakeGpuDevice(int id, bool multiplies_tfloat32 = false);

struct DevicesOptions {
  int cpu_threads = 0;  // shared by all cpu(i); 0: one for each core that the process may use
  int threads_per_cpu_context =
      0;                       // each cpu(i) has so many, and shares none; 0: an equal part of cpu_threads
  bool binds_threads = false;  // as after Devices::BindThreads
  // Whether cpu(i) rounds factors to bfloat16 in layers whose weights are bfloat16 (Arithmetic::kBFloat16).
  // Empty: it does where that is faster, on processors with AMX and on AMD's Zen 4.
  std::optional<bool> multiplies_bfloat16 = std::nullopt;
  // Arrays on cpu(i) lie there. Those on cpu_pinned(i) do so too unless it is the heap: they lie in Devices'
  // own pinned memory then.
  std::shared_ptr<Allocator> memory = HeapAllocator();
  // Whether gpu(i) rounds factors to TensorFloat-32 (10 bits of mantissa) in layers whose weights are float32
  // (Arithmetic::kTFloat32).
  bool multiplies_tfloat32 = false;
  // Makes the device of gpu(id).
  std::function<std::shared_ptr<Device>(int id, bool multiplies_tfloat32)> make_gpu = MakeGpuDevice;
  // Wraps or replaces each device that is made; tests and benchmarks use it
  // to watch streams. Null: no wrapping.
  std::function<std::shared_ptr<Device>(std::shared_ptr<Device>)> wrap_device = nullptr;
};

class Devices {
 public:
  explicit Devices(const DevicesOptions& options = {});
  // Waits for all streams. Otherwise the last array of a device could be destroyed by the device's own
  // thread, and the device with it, and a thread cannot join itself.
  ~Devices();

  // Returns the device of `context`, which is made on first use. Throws Error(kInvalidArgument) for a
  // negative id, what GpuUnavailable returns for a gpu(i) that is not there (tensor/gpus.h), and what
  // MakeCpuDevice and cuda::MakeCard throw.
  std::shared_ptr<Device> Get(Context context);
  // Sets how many threads all cpu(i) share. Each has an equal part, at least one thread; the
  // parts become smaller when another context is made. The last bit of a sum over many
  // elements may depend on the number of threads.
  void SetCpuThreads(int threads);
  // From now on the threads of each cpu(i) run on cores of their own: the cores that the
  // process may use are divided among the contexts as the threads are. With fewer cores
  // than contexts, several contexts share a core.
  void BindThreads();
  // Sets DevicesOptions::multiplies_bfloat16 for cpu contexts made from now on.
  void SetMultipliesBFloat16(std::optional<bool> multiplies);
  // Sets DevicesOptions::multiplies_tfloat32 for gpu contexts made from now on.
  void SetMultipliesTFloat32(bool multiplies);
  // Sets DevicesOptions::memory for contexts made from now on.
  void SetMemory(std::shared_ptr<Allocator> memory);
  // Makes the streams of all contexts report to `watcher` (stream_watcher.h): what is issued from now on, on
  // arrays that are made from now on.
  void WatchWith(std::shared_ptr<StreamWatcher> watcher);
  // Returns the pinned memory of these devices. Whoever makes SetMemory's allocator adds its ranges to it.
  const std::shared_ptr<PinnedMemory>& pinned_memory() const { return pinned_memory_; }
  // Is held while an operation of several devices is enqueued on their streams, so that all have one order.
  Mutex& collective_mutex() { return collective_mutex_; }
  // Sets how many threads each cpu context made from now on uses. Contexts that exist keep
  // theirs, and the contexts share no threads any more. Call it before the first array is
  // made. Throws Error(kInvalidArgument) below 1.
  void SetThreadsPerCpuContext(int threads);
  // Waits for everything enqueued on every device so far. Throws the error of a card that is lost.
  void DrainAll();

  // Returns the default devices, which are made on first use.
  static std::shared_ptr<Devices> Default();
  // Waits for everything enqueued on the default devices, and notes that the process ends. Called when the
  // main thread does, and by exit(). Shows no error of a device.
  static void DrainAtEnd();
  // Whether DrainAtEnd has been called. From then on cards and what belongs to them are left to the system.
  static bool IsEnding();
  // Marks the calling thread as a device's own. If it calls exit(), as OpenMP does where the system gives no
  // threads, the process ends at once with that code: the exit handlers could not wait for this thread.
  static void OnDeviceThread();
  // Sets what Default() returns from here on; after null, Default() makes
  // new devices. For tests and benchmarks.
  static void SetDefault(std::shared_ptr<Devices> devices);

 private:
  void Share() SLUICE_REQUIRES(mutex_);
  void ConnectPeers(int id, Device& card) SLUICE_REQUIRES(mutex_);
  std::shared_ptr<Allocator> MemoryFor(DeviceKind kind) const SLUICE_REQUIRES(mutex_);
  int CpuThreads() const SLUICE_REQUIRES(mutex_);
  int ThreadsOfNext() const SLUICE_REQUIRES(mutex_);
  CpuShare ShareOf(int context, int contexts) const SLUICE_REQUIRES(mutex_);

  const std::shared_ptr<PinnedMemory> pinned_memory_ = MakePinnedMemory();
  const std::vector<int> cores_;  // the cores that the process may use
  Mutex collective_mutex_;
  Mutex mutex_;
  DevicesOptions options_ SLUICE_GUARDED_BY(mutex_);
  std::map<Context, std::shared_ptr<Device>> devices_ SLUICE_GUARDED_BY(mutex_);
  std::shared_ptr<StreamWatcher> watcher_ SLUICE_GUARDED_BY(mutex_);  // null: none
};

}  // namespace sluice

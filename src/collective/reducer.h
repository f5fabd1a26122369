// Sums the gradients of one machine's devices, and copies one array to all devices. A reducer has two
// functions (after Flashlight's distributed/reducers). Both return at once: they enqueue work, and the
// arrays' events order it with everything else that reads or writes them.
//
// Values are summed in the order of the list, whatever the devices' timing, so that results are
// bit-reproducible. 16-bit floats are summed in float32 and rounded once; integers wrap. A sum of
// float16 numbers may exceed float16's range, although a later division brings it back into range;
// so it is kept as sum / 2^exponent.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/function_ref.h"
#include "sluice/ndarray.h"
#include "tensor/access.h"

namespace sluice::collective {

// Enqueues work on arrays in host memory, to run once the events `after` are done: EnqueueOn, on the
// context's stream, or a function of the caller's that uses a thread of its own.
using HostWork =
    std::function<Event(Context context, Label what, std::span<const Event> after, Stream::Work work)>;

// Returns the exponent with which the sum of `terms` arrays of finite numbers is finite in this dtype. It is
// 0 for dtypes other than float16: bfloat16 has the range of float32, in which sums are computed. Dividing by
// a power of two rounds only numbers at the low end of the range, where the addends themselves are as coarse.
inline uint32_t ExponentOfSum(DType dtype, size_t terms) {
  return dtype == DType::kFloat16 && terms > 1 ? static_cast<uint32_t>(std::bit_width(terms - 1)) : 0;
}

// One sum: *out = (values[0] + values[1] + ...) / 2^exponent. What it points to must outlive the call.
struct Reduction {
  std::span<const NDArray> values;
  NDArray* out;
  uint32_t exponent = 0;
};
// Copies of one array.
struct Copies {
  const NDArray* value;
  std::span<const NDArray> outs;
};

class Reducer {
 public:
  explicit Reducer(HostWork host_work) : host_work_(std::move(host_work)) {}
  virtual ~Reducer() = default;

  // Returns the context where the sums of a key with `bytes` bytes are to be kept,
  // whose gradients come from `contexts`.
  virtual Context Place(const std::vector<Context>& contexts, uint64_t bytes) = 0;
  // Throws Error(kInvalidArgument) for an array whose context the reducer does not sum.
  virtual void RequireContext(const NDArray& /*value*/) const {}
  // Enqueues the sums, which may share launches. The values may be on any contexts. Throws
  // Error(kInvalidArgument), before it enqueues any, if one has no values, if a value differs from its `out`
  // in shape or dtype, or shares memory with it. No `out` may share memory with another array of the call.
  // Dtypes other than 16-bit floats take exponent 0.
  void ReduceAll(std::span<const Reduction> sums);
  void Reduce(const std::vector<NDArray>& values, NDArray* out, uint32_t exponent = 0) {
    const Reduction one{values, out, exponent};
    ReduceAll({&one, 1});
  }
  // Whether Reduce at this place is Kernels::AddUp of the values, so that one who reads the sum once may add
  // up itself.
  virtual bool AddsUpAt(Context /*place*/) const { return false; }
  // Enqueues copies of arrays to each of their `outs` that does not share their memory. All of these have the
  // array's shape; the dtype may differ. Calls enqueued(i) when those of all[i] are, and nothing later has
  // been. What is written several times is so in the order of the list.
  virtual void BroadcastAll(std::span<const Copies> all, FunctionRef<void(size_t)> enqueued);
  void Broadcast(const NDArray& value, const std::vector<NDArray>& outs) {
    const Copies one{&value, outs};
    BroadcastAll({&one, 1}, [](size_t) {});
  }

 protected:
  virtual void DoReduce(std::span<const Reduction> sums) = 0;
  const HostWork& host_work() const { return host_work_; }

 private:
  const HostWork host_work_;
};

// Makes a reducer that sums in host memory: on a stream of the host's own (cpu_pinned), or on the device's if
// a key has only one and that is a CPU. Sums of large arrays use up to `threads` threads
// (MXNET_KVSTORE_REDUCTION_NTHREADS).
std::unique_ptr<Reducer> MakeHostReducer(int threads, HostWork host_work = EnqueueOn);
// Makes a reducer that sums on the devices: each key's sum is kept on the device
// that has the fewest bytes so far.
std::unique_ptr<Reducer> MakeDeviceReducer(HostWork host_work = EnqueueOn);
// Makes a reducer that sums on GPUs of this process by NCCL, and keeps each sum where MakeDeviceReducer does.
// 16-bit floats travel as float32. A sum may be added up in another order than that of the list, the same in
// every run on the same machine. Up to 12 sums or copies of a call between the same GPUs, of 32 MiB together,
// are launched as one and fail as one. Broadcast copies to arrays on CPUs; Reduce throws
// Error(kInvalidArgument) for them. If the cards do not end an operation within `most`, its arrays and those
// of all later ones carry Error(kUnavailable), which names the cards.
//
// Throws Error(kUnimplemented) in builds without NCCL, Error(kUnavailable) where the library is missing.
std::unique_ptr<Reducer> MakeNcclReducer(Duration most);

}  // namespace sluice::collective

// Inside one machine: the gradients of its devices become one sum, and one array goes to all devices. A
// reducer is two functions (after Flashlight's distributed/reducers). Both return at once; arrays carry the
// order.
//
// The sum is taken in the order of the list, whatever the devices' timing: bit-reproducible. 16-bit floats
// are summed in float32 and rounded once; whole numbers wrap. A sum of float16 numbers may be none itself,
// where what it is divided by later makes it one again: it is kept as sum / 2^exponent.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sluice/ndarray.h"
#include "tensor/access.h"

namespace sluice::collective {

// Who does the work on arrays in host memory, and when: EnqueueOn, or a thread of the caller's own.
using HostWork =
    std::function<Event(Context context, Label what, std::span<const Event> after, Stream::Work work)>;

// With which the sum of so many arrays of this type is a finite number of it, if these are; 0 where it needs
// none: bfloat16 has the range of the float32 that computes. A power of two rounds nothing but what lies at
// the least end of the range, where the addends themselves are as coarse.
inline uint32_t ExponentOfSum(DType dtype, size_t terms) {
  return dtype == DType::kFloat16 && terms > 1 ? static_cast<uint32_t>(std::bit_width(terms - 1)) : 0;
}

class Reducer {
 public:
  explicit Reducer(HostWork host_work) : host_work_(std::move(host_work)) {}
  virtual ~Reducer() = default;

  // Where sums of a key with `bytes` bytes are to be kept, given the contexts that its gradients come from.
  virtual Context Place(const std::vector<Context>& contexts, uint64_t bytes) = 0;
  // out = (values[0] + values[1] + ...) / 2^exponent; same shape and dtype, on any contexts; out may not be
  // one of them. Error(kInvalidArgument) otherwise. Other types than 16-bit floats take exponent 0.
  void Reduce(const std::vector<NDArray>& values, NDArray* out, uint32_t exponent = 0);
  void Broadcast(const NDArray& value, const std::vector<NDArray>& outs);

 protected:
  virtual void DoReduce(const std::vector<NDArray>& values, NDArray* out, uint32_t exponent) = 0;
  const HostWork& host_work() const { return host_work_; }

 private:
  const HostWork host_work_;
};

// In host memory, on a stream of the host's own, or of the only device where that is a CPU's; sums of large
// arrays use up to `threads` threads (MXNET_KVSTORE_REDUCTION_NTHREADS).
std::unique_ptr<Reducer> MakeHostReducer(int threads, HostWork host_work = EnqueueOn);
// On the devices themselves: a key's sum lives on the device with the fewest bytes so far.
std::unique_ptr<Reducer> MakeDeviceReducer(HostWork host_work = EnqueueOn);
// NCCL; Error(kUnimplemented) in builds without it.
std::unique_ptr<Reducer> MakeNcclReducer();

}  // namespace sluice::collective

// Inside one machine: the gradients of its devices become one sum, and one array goes to all devices. A
// reducer is two functions (after Flashlight's distributed/reducers). Both return at once; arrays carry the
// order.
//
// The sum is taken in the order of the list, whatever the devices' timing: bit-reproducible. 16-bit floats
// are summed in float32 and rounded once; whole numbers wrap.
#pragma once

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

class Reducer {
 public:
  explicit Reducer(HostWork host_work) : host_work_(std::move(host_work)) {}
  virtual ~Reducer() = default;

  // Where sums of a key with `bytes` bytes are to be kept, given the contexts that its gradients come from.
  virtual Context Place(const std::vector<Context>& contexts, uint64_t bytes) = 0;
  // out = values[0] + values[1] + ...; same shape and dtype, on any contexts; out may not be one of them.
  // Error(kInvalidArgument) otherwise.
  void Reduce(const std::vector<NDArray>& values, NDArray* out);
  void Broadcast(const NDArray& value, const std::vector<NDArray>& outs);

 protected:
  virtual void DoReduce(const std::vector<NDArray>& values, NDArray* out) = 0;
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

#include "worker/store/device_arrays.h"

#include <algorithm>

#include "kvstore/copy_to_gpu.h"
#include "tensor/access.h"

namespace sluice::worker {
namespace {

// Makes *kept an array that nobody uses. One that is in use is left to its users: what comes next must not
// wait for them, since a pull waits for a round that may need other workers.
void MakeUnused(NDArray* kept, const kvstore::KeyShape& shape, Context context) {
  if (kept->valid() && PendingUses(*kept).empty()) return;
  *kept = NDArray::Empty(shape.shape, context, shape.dtype);
}

}  // namespace

DeviceArrays::DeviceArrays(StoreContext& context, std::unique_ptr<collective::Reducer> reducer)
    : context_(context), reducer_(std::move(reducer)) {}

NDArray DeviceArrays::Source(StoreKey& key, const std::vector<NDArray>& values) {
  ++key.round;
  if (Tracer* tracer = context_.options().tracer; tracer != nullptr) {
    Events written;
    for (const NDArray& value : values) written.push_back(ReadyToRead(value));
    const auto reduced = [tracer, id = key.id, round = key.round,
                          bytes = key.bytes * values.size()](const std::exception_ptr& error) {
      if (error == nullptr) tracer->OnStage(SteadyClock().Now(), Stage::kReduce, id, round, bytes);
    };
    kvstore::WhenAll(written, reduced, context_.records());
  }
  if (values.size() == 1 && OnHost(values.front())) return values.front();
  if (!key.place) {
    std::vector<Context> contexts;
    for (const NDArray& value : values) contexts.push_back(value.context());
    key.place = reducer_->Place(contexts, key.bytes);
  }
  MakeUnused(&key.merged, key.shape, *key.place);
  reducer_->Reduce(values, &key.merged, collective::ExponentOfSum(key.shape.dtype, values.size()));
  return HostArray(key.merged);
}

NDArray DeviceArrays::Target(StoreKey& key, const std::vector<NDArray>& outs) {
  for (const NDArray& out : outs) {
    if (OnHost(out)) return out;
  }
  MakeUnused(&key.staging, key.shape, HostContextOf(outs.front().context()));
  return key.staging;
}

void DeviceArrays::Broadcast(const StoreKey& key, const NDArray& target, const Event& delivered,
                             const std::vector<NDArray>& outs) {
  context_.Trace(delivered, Stage::kBroadcast, key.id, key.round, key.bytes * outs.size());
  if (std::ranges::all_of(outs, OnHost)) return reducer_->Broadcast(target, outs);  // takes no memory
  std::vector<NDArray> others;
  for (const NDArray& out : outs) {
    OnHost(out) ? others.push_back(out)
                : kvstore::CopyToGpuOnceDelivered(target, out, delivered, context_.records());
  }
  reducer_->Broadcast(target, others);
}

}  // namespace sluice::worker

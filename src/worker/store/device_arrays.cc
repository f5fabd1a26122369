#include "worker/store/device_arrays.h"

#include "tensor/access.h"

namespace sluice::worker {

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
  if (!key.merged.valid()) {
    std::vector<Context> contexts;
    for (const NDArray& value : values) contexts.push_back(value.context());
    key.merged = NDArray::Empty(key.shape.shape, reducer_->Place(contexts, key.bytes), key.shape.dtype);
  }
  reducer_->Reduce(values, &key.merged, collective::ExponentOfSum(key.shape.dtype, values.size()));
  return key.merged.AsInContext(OnHost(key.merged) ? key.merged.context() : cpu_pinned(0));
}

NDArray DeviceArrays::Target(StoreKey& key, const std::vector<NDArray>& outs) {
  for (const NDArray& out : outs) {
    if (OnHost(out)) return out;
  }
  if (!key.staging.valid()) key.staging = NDArray::Empty(key.shape.shape, cpu_pinned(0), key.shape.dtype);
  return key.staging;
}

void DeviceArrays::Broadcast(const StoreKey& key, const NDArray& target, const Event& delivered,
                             const std::vector<NDArray>& outs) {
  context_.Trace(delivered, Stage::kBroadcast, key.id, key.round, key.bytes * outs.size());
  reducer_->Broadcast(target, outs);
}

}  // namespace sluice::worker

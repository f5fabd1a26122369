#include "worker/store/device_arrays.h"

#include <algorithm>

namespace sluice::worker {
namespace {

// Makes *kept an array that nobody uses. One that is in use is left to its users: what comes next must not
// wait for them, since a pull waits for a round that may need other workers.
void MakeUnused(NDArray* kept, const kvstore::KeyShape& shape, Context context) {
  if (kept->valid() && PendingUses(*kept).empty()) return;
  *kept = NDArray::Empty(shape.shape, context, shape.dtype);
}

}  // namespace

bool OnCards(const std::vector<NDArray>* arrays) {
  return arrays == nullptr || std::ranges::none_of(*arrays, OnHost);
}

DeviceArrays::DeviceArrays(StoreContext& context, std::unique_ptr<collective::Reducer> reducer)
    : context_(context), reducer_(std::move(reducer)) {}

Context DeviceArrays::PlaceOf(StoreKey& key, const std::vector<NDArray>& values) {
  if (values.size() == 1) return values.front().context();
  if (!key.place) {
    std::vector<Context> contexts;
    for (const NDArray& value : values) contexts.push_back(value.context());
    key.place = reducer_->Place(contexts, key.bytes);
  }
  return *key.place;
}

NDArray DeviceArrays::Sum(StoreKey& key, const std::vector<NDArray>& values) {
  ++key.round;
  if (Tracer* tracer = context_.options().tracer; tracer != nullptr) {
    Events written;
    for (const NDArray& value : values) written.push_back(ReadyToRead(value));
    key.traced = Event::Make("the trace of a reduction", nullptr, context_.records());
    const auto reduced = [tracer, id = key.id, round = key.round, bytes = key.bytes * values.size(),
                          traced = key.traced](const std::exception_ptr& error) {
      if (error == nullptr) tracer->OnStage(SteadyClock().Now(), Stage::kReduce, id, round, bytes);
      traced.Complete();
    };
    kvstore::WhenAll(written, reduced, context_.records());
  }
  if (values.size() == 1) return values.front();
  MakeUnused(&key.merged, key.shape, PlaceOf(key, values));
  reducer_->Reduce(values, &key.merged, collective::ExponentOfSum(key.shape.dtype, values.size()));
  return key.merged;
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
  if (std::ranges::all_of(outs, OnHost)) {  // takes no memory
    reducer_->Broadcast(target, outs);
  } else {
    const kvstore::Deliveries whole = kvstore::DeliveryOf(target, delivered);
    std::vector<NDArray> others;
    for (const NDArray& out : outs) {
      OnHost(out) ? others.push_back(out)
                  : kvstore::CopyToGpuOnceDelivered(target, out, whole, PendingUses(out), context_.records());
    }
    reducer_->Broadcast(target, others);
  }
  for (const NDArray& out : outs) SetOrigin(out, key.origin);
}

void DeviceArrays::BroadcastParts(const StoreKey& key, const NDArray& target, const Event& delivered,
                                  const std::vector<NDArray>& outs, const kvstore::Deliveries& parts,
                                  const std::vector<Events>& uses) {
  context_.Trace(delivered, Stage::kBroadcast, key.id, key.round, key.bytes * outs.size());
  for (size_t i = 0; i < outs.size(); ++i) {
    kvstore::CopyToGpuOnceDelivered(target, outs[i], parts, uses[i], context_.records());
    SetOrigin(outs[i], key.origin);
  }
}

}  // namespace sluice::worker

// DistStore: the keys of a call that go in small-key batches (small_key_batch.h). No operation on their
// arrays is open, so that the batch does not have to wait for anything.
#include <algorithm>

#include "base/strings.h"
#include "tensor/access.h"
#include "worker/dist_store.h"

namespace sluice::worker {
namespace {

bool AtRest(const std::vector<NDArray>* arrays, const auto& at_rest) {
  if (arrays == nullptr) return true;
  const NDArray& array = arrays->front();
  return arrays->size() == 1 && array.context().kind != DeviceKind::kGpu && !Adopts(array) && at_rest(array);
}

bool Written(const NDArray& array) {
  return ReadyToRead(array).Succeeded();
}

bool Unused(const NDArray& array) {
  return PendingUses(array).empty();
}

}  // namespace

bool DistStore::IsSmall(const KeyState& state) const {
  return state.parts == 1 && state.bytes <= SmallKeyBatch::kMostKeyBytes && state.compressor.Idle();
}

DistStore::SmallKeys DistStore::SmallOf(OpKind kind, const Found& states, const PushOptions& options) const {
  SmallKeys small;
  if (compression_.type != Compression::kNone || Weights() != Compression::kNone) return small;
  small.common = {.kind = kind,
                  .keys = PerKeyOps(MemoryOf<PerKeyOp>(records_)),
                  .source = {},
                  .priority = options.priority,
                  .samples = options.samples,
                  .divisor = options.divisor};
  for (const KeyState* state : states) {
    if (!IsSmall(*state)) continue;
    ++small.keys;
    small.bytes += state->bytes;
  }
  if (small.keys > 1) small.timeout = Timeout();
  return small;
}

bool DistStore::GoesInBatch(const SmallKeys& small, const KeyState& state, const std::vector<NDArray>* values,
                            const std::vector<NDArray>* outs) const {
  return small.keys > 1 && IsSmall(state) && state.issued.Succeeded() && AtRest(values, Written) &&
         AtRest(outs, Unused);
}

void DistStore::AddToBatch(const SmallKeys& small, const CallName& what, KeyState& state,
                           const std::vector<NDArray>* values, const std::vector<NDArray>* outs,
                           CallBatch& calls) {
  const uint32_t shard = state.shard;
  SmallKeyBatch* batch = calls.BatchOf(shard, state.bytes);
  if (batch == nullptr) {
    const Event done = Event::Make(what.batched, calls.may_run_inline() ? loop_driver_ : nullptr, records_);
    outstanding_.Add(what.batched, done);
    batch =
        &calls.Open(shard, SmallKeyBatch(small.common, small.keys, small.bytes, sent_, done), small.timeout);
  }
  const std::byte* gradient = values == nullptr ? nullptr : HostBytes(Source(state, *values)).data();
  if (outs == nullptr) return batch->Add(state.id, state.bytes, gradient);
  NDArray target = outs->front();
  const Event delivered = Event::Make(what.single, calls.may_run_inline() ? loop_driver_ : nullptr, records_);
  batch->Add(state.id, state.bytes, gradient, {MutableHostBytes(target), target.storage(), nullptr},
             delivered);
  SetWriter(target, delivered);
  Broadcast(state, target, delivered, *outs);
}

}  // namespace sluice::worker

// Small keys of a call that go together (bundle.h): those whose arrays are at rest, so that nothing has to
// be waited for.
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
  return state.parts == 1 && state.bytes <= Bundle::kMostKeyBytes && state.compressor.Idle();
}

DistStore::SmallKeys DistStore::SmallOf(OpKind kind, const Found& states, const PushOptions& options) const {
  SmallKeys small;
  if (compression_.type != Compression::kNone || Weights() != Compression::kNone) return small;
  small.common = {.kind = kind,
                  .keys = OfKeys(MemoryOf<OfKey>(records_)),
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

bool DistStore::GoesInBundle(const SmallKeys& small, const KeyState& state,
                             const std::vector<NDArray>* values, const std::vector<NDArray>* outs) const {
  return small.keys > 1 && IsSmall(state) && state.issued.Succeeded() && AtRest(values, Written) &&
         AtRest(outs, Unused);
}

void DistStore::AddToBundle(const SmallKeys& small, const CallName& what, KeyState& state,
                            const std::vector<NDArray>* values, const std::vector<NDArray>* outs,
                            Handover& calls) {
  const uint32_t shard = state.shard;
  Bundle* bundle = calls.BundleOf(shard, state.bytes);
  if (bundle == nullptr) {
    const Event done = Event::Make(what.with_others, calls.alone() ? helped_ : nullptr, records_);
    outstanding_.Add(what.with_others, done);
    bundle = &calls.Open(shard, Bundle(small.common, small.keys, small.bytes, sent_, done), small.timeout);
  }
  const std::byte* gradient = values == nullptr ? nullptr : HostBytes(Source(state, *values)).data();
  if (outs == nullptr) return bundle->Add(state.id, state.bytes, gradient);
  NDArray target = outs->front();
  const Event landed = Event::Make(what.alone, calls.alone() ? helped_ : nullptr, records_);
  bundle->Add(state.id, state.bytes, gradient, {MutableHostBytes(target), target.storage(), nullptr}, landed);
  SetWriter(target, landed);
  Broadcast(state, target, landed, *outs);
}

}  // namespace sluice::worker

#include "worker/store/small_keys.h"

#include "tensor/access.h"

namespace sluice::worker {
namespace {

bool IsSmall(const StoreKey& key) {
  return key.parts == 1 && key.bytes <= SmallKeyBatch::kMostKeyBytes && key.compressor.Idle();
}

bool AtRest(SmallKeys::Arrays arrays, const auto& at_rest) {
  if (arrays == nullptr) return true;
  const NDArray& array = arrays->front();
  return arrays->size() == 1 && OnHost(array) && !Adopts(array) && at_rest(array);
}

bool Written(const NDArray& array) {
  return ReadyToRead(array).Succeeded();
}

bool Unused(const NDArray& array) {
  return PendingUses(array).empty();
}

}  // namespace

SmallKeys::SmallKeys(StoreContext& context, const StoreSettings& settings, Issuer& issuer,
                     DeviceArrays& arrays, OpKind kind, const FoundKeys& keys, const PushOptions& options,
                     bool latest)
    : context_(context),
      arrays_(arrays),
      cards_(context, issuer, arrays),
      kind_(kind),
      options_(options),
      latest_(latest) {
  if (settings.compression.type != Compression::kNone || settings.Weights() != Compression::kNone) return;
  for (const StoreKey* key : keys) {
    if (!IsSmall(*key)) continue;
    ++keys_;
    bytes_ += key->bytes;
  }
  if (keys_ > 1) timeout_ = context.Timeout();
}

bool SmallKeys::Take(const OperationLabels& what, StoreKey& key, Arrays values, Arrays outs,
                     CallBatch& calls) {
  if (cards_.Uses(values, outs)) Issue(calls);  // arrays are used in the order of the keys
  if (keys_ < 2 || !IsSmall(key)) return false;
  if (cards_.Accept(key, values, outs)) {
    cards_.Add(what, key, values, outs);
    return true;
  }
  if (!key.issued.Succeeded() || !AtRest(values, Written) || !AtRest(outs, Unused)) return false;
  AddOnHost(what, key, values, outs, calls);
  return true;
}

void SmallKeys::Issue(CallBatch& calls) {
  cards_.Issue([this] { return NewOp(); }, calls);
}

std::shared_ptr<Operation> SmallKeys::NewOp() const {
  auto op = NewOperation(context_.records(), kind_);
  op->keys.reserve(keys_);
  op->priority = options_.priority;
  op->samples = options_.samples;
  op->divisor = options_.divisor;
  op->latest = latest_;
  return op;
}

void SmallKeys::AddOnHost(const OperationLabels& what, StoreKey& key, Arrays values, Arrays outs,
                          CallBatch& calls) {
  SmallKeyBatch* batch = calls.BatchOf(key.shard, key.bytes);
  if (batch == nullptr) {
    const Event done = context_.MakeEnd(what.batched, calls.may_run_inline());
    context_.outstanding().Add(what.batched, done);
    batch = &calls.Open(key.shard, {NewOp(), bytes_, context_.sent(), done}, timeout_);
  }
  const std::byte* gradient = values == nullptr ? nullptr : HostBytes(arrays_.Source(key, *values)).data();
  if (outs == nullptr) return batch->Add(key.id, key.bytes, gradient);
  NDArray target = outs->front();
  const Event delivered = context_.MakeEnd(what.single, calls.may_run_inline());
  batch->Add(key.id, key.bytes, gradient, {MutableHostBytes(target), target.storage(), nullptr}, delivered);
  SetWriter(target, delivered);
  arrays_.Broadcast(key, target, delivered, *outs);
}

}  // namespace sluice::worker

// DenseKeys: one call at a time, key by key.
//
// DistStore calls this on the program's threads, with its mutex held. A call returns as soon as its
// operations are issued: each becomes a read of the pushed array and a write of the pulled one, so later
// uses of the arrays wait. A key's operation goes into the call's small-key batch (SmallKeys) or is issued
// by itself (Issuer). An error is thrown by the next call on the store (StoreContext::outstanding) and by
// uses of the array.
#include "worker/store/dense_keys.h"

#include <algorithm>

#include "tensor/access.h"
#include "worker/store/small_keys.h"

namespace sluice::worker {
namespace {

AdoptionBudget::Amount RoomIn(uint64_t shards) {
  return {std::min(kMostAdoptedParts * shards, kMostMappedParts), kMostAdoptedBytes * shards};
}

// Called before the bytes of `arrays` are used. That may wait for a pull into an adopting array, and the
// pull may not have been submitted yet: it is then in `calls`.
void SubmitIfAdopting(const std::vector<NDArray>& arrays, CallBatch& calls) {
  if (std::ranges::any_of(arrays, Adopts)) calls.Submit();
}

}  // namespace

DenseKeys::DenseKeys(StoreContext& context, const StoreSettings& settings, StoreKeyTable& keys,
                     Issuer& issuer, std::unique_ptr<collective::Reducer> reducer)
    : context_(context),
      settings_(settings),
      keys_(keys),
      issuer_(issuer),
      arrays_(context, std::move(reducer)),
      large_(context, settings, issuer, arrays_),
      adoption_budget_(RoomIn(context.client().client->num_shards())) {}

NDArray DenseKeys::Encode(StoreKey& key, const std::vector<NDArray>& values, const PushOptions& options,
                          Operation* push) {
  const NDArray source = arrays_.Source(key, values);
  push->priority = options.priority;
  push->samples = options.samples;
  push->divisor = options.divisor;
  push->exponent = collective::ExponentOfSum(key.shape.dtype, values.size());
  const Optimizer* optimizer = settings_.optimizer.get();
  const bool by_samples = optimizer != nullptr && optimizer->config().normalize_by_samples;
  const double scale = by_samples ? static_cast<double>(options.samples) : options.divisor;
  NDArray sent = source;
  // A push without samples has no effect, so the residual must not be sent with it.
  if (!options.uncompressed && scale != 0) {
    push->compression = settings_.compression;
    sent = key.compressor.Compress(source, scale, context_.options().host_work, push);
  }
  if (!sent.SharesStorage(source))
    context_.Trace(ReadyToRead(sent), Stage::kCompress, key.id, key.round,
                   static_cast<uint64_t>(sent.size()));
  if (!options.uncompressed) push->compression.weights = settings_.Weights();
  return sent;
}

Destination DenseKeys::DestinationIn(NDArray& target, const StoreKey& key, bool kept, CallBatch& calls) {
  BufferSlot* buffer_slot = context_.options().adopts && !kept ? BufferSlotOf(target) : nullptr;
  if (buffer_slot != nullptr && adoption_budget_.Reserve(target.storage(), {key.parts, key.bytes})) {
    LetAdopt(target);
    return {{}, target.storage(), buffer_slot};
  }
  SubmitIfAdopting({target}, calls);
  return {MutableHostBytes(target), target.storage(), nullptr};
}

void DenseKeys::Push(const std::vector<Key>& keys, const std::vector<Values>& values,
                     const PushOptions& options) {
  const auto entries = kvstore::GroupByKey("Push", keys, values);
  const FoundKeys found = keys_.FindAll("Push", entries);
  for (size_t i = 0; i < entries.size(); ++i)
    kvstore::RequireDivisor("Push", entries[i].key, found[i]->shape.dtype, options);
  SmallKeys small(context_, settings_, issuer_, arrays_, OpKind::kPush, found, options);
  CallBatch calls = issuer_.NewCallBatch(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    StoreKey& key = *found[i];
    const auto* values = &entries[i].arrays;
    if (!small.Take(key.push, key, values, nullptr, calls)) PushOne(key, *values, options, calls);
  }
  small.Issue(calls);
}

void DenseKeys::PushOne(StoreKey& key, const std::vector<NDArray>& values, const PushOptions& options,
                        CallBatch& calls) {
  if (large_.Accept(OpKind::kPush, key, &values, nullptr))
    return large_.Issue(OpKind::kPush, key, &values, nullptr, options, false, calls);
  SubmitIfAdopting(values, calls);
  auto op = NewOperation(context_.records(), OpKind::kPush, key.id);
  const NDArray sent = Encode(key, values, options, op.get());
  // The read ends when the last holder of the frame has released it, possibly
  // long after the acknowledgement.
  const Event read = Event::Make(key.push.single, nullptr, context_.records());
  op->source = HostFrame(sent, read, context_.records());
  const Event done = issuer_.Issue(key.push.single, key, {ReadyToRead(sent)}, std::move(op), calls);
  AddReader(sent, read);
  key.compressor.Sent(done);
}

void DenseKeys::Pull(const std::string& what, const std::vector<Key>& keys, const std::vector<Values>& outs,
                     int priority, bool latest) {
  const auto entries = kvstore::GroupByKey(what, keys, outs);
  const FoundKeys found = keys_.FindAll(what, entries);
  SmallKeys small(context_, settings_, issuer_, arrays_, OpKind::kPull, found, {.priority = priority},
                  latest);
  CallBatch calls = issuer_.NewCallBatch(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    StoreKey& key = *found[i];
    const auto* outs = &entries[i].arrays;
    if (!small.Take(key.pull, key, nullptr, outs, calls)) PullOne(key, *outs, priority, latest, calls);
  }
  small.Issue(calls);
}

void DenseKeys::PullOne(StoreKey& key, const std::vector<NDArray>& outs, int priority, bool latest,
                        CallBatch& calls) {
  if (large_.Accept(OpKind::kPull, key, nullptr, &outs))
    return large_.Issue(OpKind::kPull, key, nullptr, &outs, {.priority = priority}, latest, calls);
  NDArray target = DeviceArrays::Target(key, outs);
  if (outs.size() > 1) SubmitIfAdopting(outs, calls);
  auto op = NewOperation(context_.records(), OpKind::kPull, key.id);
  op->only().destination = DestinationIn(target, key, outs.size() > 1, calls);
  op->priority = priority;
  op->latest = latest;
  op->compression.weights = settings_.Weights();
  const Event done = issuer_.Issue(key.pull.single, key, PendingUses(target), std::move(op), calls);
  SetWriter(target, done);
  arrays_.Broadcast(key, target, done, outs);
}

void DenseKeys::PushPull(const std::vector<Key>& keys, const std::vector<Values>& values,
                         const std::vector<Values>& outs, const PushOptions& options) {
  const auto sources = kvstore::GroupByKey("PushPull", keys, values);
  const auto targets = kvstore::GroupByKey("PushPull", keys, outs.empty() ? values : outs);
  const FoundKeys found = keys_.FindAll("PushPull", sources);
  for (size_t i = 0; i < sources.size(); ++i) {
    kvstore::RequireFit("PushPull", targets[i].key, found[i]->shape, targets[i].arrays);
    kvstore::RequireDivisor("PushPull", sources[i].key, found[i]->shape.dtype, options);
  }
  SmallKeys small(context_, settings_, issuer_, arrays_, OpKind::kPushPull, found, options);
  CallBatch calls = issuer_.NewCallBatch(sources.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    StoreKey& key = *found[i];
    const auto *values = &sources[i].arrays, *outs = &targets[i].arrays;
    if (!small.Take(key.push_pull, key, values, outs, calls))
      PushPullOne(key, *values, *outs, options, calls);
  }
  small.Issue(calls);
}

void DenseKeys::PushPullOne(StoreKey& key, const std::vector<NDArray>& values,
                            const std::vector<NDArray>& outs, const PushOptions& options, CallBatch& calls) {
  if (large_.Accept(OpKind::kPushPull, key, &values, &outs))
    return large_.Issue(OpKind::kPushPull, key, &values, &outs, options, false, calls);
  SubmitIfAdopting(values, calls);
  auto op = NewOperation(context_.records(), OpKind::kPushPull, key.id);
  const NDArray sent = Encode(key, values, options, op.get());
  NDArray target = DeviceArrays::Target(key, outs);
  Events after = PendingUses(target);
  after.push_back(ReadyToRead(sent));
  const Event read = Event::Make(key.push_pull.single, nullptr, context_.records());
  op->source = HostFrame(sent, read, context_.records());
  const bool kept = outs.size() > 1 || sent.SharesStorage(target);
  if (kept) SubmitIfAdopting(outs, calls);
  op->only().destination = DestinationIn(target, key, kept, calls);
  const Event done = issuer_.Issue(key.push_pull.single, key, std::move(after), std::move(op), calls);
  if (!sent.SharesStorage(target)) AddReader(sent, read);
  key.compressor.Sent(done);
  SetWriter(target, done);
  arrays_.Broadcast(key, target, done, outs);
}

void DenseKeys::Set(const std::vector<Key>& keys, const std::vector<NDArray>& values) {
  const std::vector<Values> lists = kvstore::OneArrayPerKey("Set", keys, values);
  const auto entries = kvstore::GroupByKey("Set", keys, lists);
  const FoundKeys found = keys_.FindAll("Set", entries);
  CallBatch calls = issuer_.NewCallBatch(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) SetOne(*found[i], entries[i].arrays.front(), calls);
}

// The value is read in place, as that of a push, until the servers have it. Only worker 0 sends one.
void DenseKeys::SetOne(StoreKey& key, const NDArray& value, CallBatch& calls) {
  auto op = NewOperation(context_.records(), OpKind::kSet, key.id);
  if (context_.rank() != 0) {
    issuer_.Issue(key.set, key, {}, std::move(op), calls);
    return;
  }
  const NDArray sent = HostArray(value);
  SubmitIfAdopting({sent}, calls);
  const Event read = Event::Make(key.set, nullptr, context_.records());
  op->source = HostFrame(sent, read, context_.records());
  issuer_.Issue(key.set, key, {ReadyToRead(sent)}, std::move(op), calls);
  AddReader(sent, read);
}

}  // namespace sluice::worker

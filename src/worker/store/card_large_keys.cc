// CardLargeKeys makes one operation for each range of a key and lets the ranges follow each other through the
// copy to the host, the servers and the copy back. Invariant: the ranges of a key are copied and issued in
// one order, which begins with a range of each shard, so that all shards have work. DenseKeys calls it, on
// the thread of the call.
#include "worker/store/card_large_keys.h"

#include <utility>

#include "tensor/access.h"

namespace sluice::worker {
namespace {

const Label& NameOf(OpKind kind, const StoreKey& key) {
  return (kind == OpKind::kPush ? key.push : kind == OpKind::kPull ? key.pull : key.push_pull).single;
}

// Whether a range of `out` may be another range of `sum`.
bool OverlapsInPart(const NDArray& out, const NDArray& sum) {
  return out.SharesStorage(sum) && out.offset() != sum.offset();
}

}  // namespace

CardLargeKeys::CardLargeKeys(StoreContext& context, const StoreSettings& settings, Issuer& issuer,
                             DeviceArrays& arrays)
    : context_(context), settings_(settings), issuer_(issuer), arrays_(arrays) {}

bool CardLargeKeys::Accept(OpKind kind, StoreKey& key, Arrays values, Arrays outs) {
  if (key.ranges.empty() || !OnCards(values) || !OnCards(outs)) return false;
  if (settings_.Weights() != Compression::kNone) return false;
  if (kind == OpKind::kPull) return context_.options().mode != wire::SyncMode::kAsync;
  return settings_.compression.type == Compression::kNone && key.compressor.Idle() &&
         arrays_.PlaceOf(key, *values).kind == DeviceKind::kGpu;
}

void CardLargeKeys::CopySum(const StoreKey& key, const NDArray& sum, Call* call) {
  const NDArray copy = NDArray::Empty(key.shape.shape, HostContextOf(sum.context()), key.shape.dtype);
  for (const KeyRange& range : key.ranges) call->ready.push_back(EnqueueCopyToHost(sum, copy, range.bytes));
  call->source = HostFrame(copy);
}

void CardLargeKeys::Issue(OpKind kind, StoreKey& key, Arrays values, Arrays outs, const PushOptions& options,
                          bool latest, CallBatch& calls) {
  Call call{.kind = kind, .options = options, .latest = latest};
  const Label& what = NameOf(kind, key);
  const NDArray sum = values == nullptr ? NDArray() : arrays_.Sum(key, *values);
  // An output may be what is pushed: a range of it is written when that range, not all, has left the card.
  std::vector<Events> uses;
  if (outs != nullptr)
    for (const NDArray& out : *outs) uses.push_back(PendingUses(out));
  if (values != nullptr) {
    call.exponent = collective::ExponentOfSum(key.shape.dtype, values->size());
    CopySum(key, sum, &call);
    for (size_t i = 0; i < uses.size(); ++i)
      if (OverlapsInPart((*outs)[i], sum)) uses[i] = PendingUses((*outs)[i]);
  }
  const auto end =
      std::make_shared<kvstore::JointEnd>(Event::Make(what, nullptr, context_.records()), key.ranges.size());
  NDArray target;
  if (outs != nullptr) {
    target = DeviceArrays::Target(key, *outs);
    call.destination = {MutableHostBytes(target), target.storage(), nullptr};
    SetWriter(target, end->event());
  }
  context_.outstanding().Add(what, end->event());
  const kvstore::Deliveries deliveries = IssueRanges(call, key, end, calls);
  if (outs != nullptr) arrays_.BroadcastParts(key, target, end->event(), *outs, deliveries, uses);
}

kvstore::Deliveries CardLargeKeys::IssueRanges(const Call& call, StoreKey& key,
                                               const std::shared_ptr<kvstore::JointEnd>& end,
                                               CallBatch& calls) {
  const std::shared_ptr<CallOnRanges> ranges = issuer_.NewCallOnRanges(call.kind, key);
  kvstore::Deliveries deliveries;
  deliveries.reserve(key.ranges.size());
  try {
    for (size_t i = 0; i < key.ranges.size(); ++i) {
      auto op = NewOp(call, key, i);
      const std::shared_ptr<const PlacedFrames> leased = op->only().destination.leased;
      Events after;
      if (op->IsPush()) after.push_back(call.ready[i]);
      const Event done =
          issuer_.Issue(NameOf(call.kind, key), key, std::move(after), std::move(op), calls, ranges);
      deliveries.push_back({key.ranges[i].bytes, done, leased});
      done.OnDone([end](const std::exception_ptr& error) { end->EndOne(error); });
    }
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    for (size_t left = deliveries.size(); left < key.ranges.size(); ++left) end->EndOne(error);
    Issuer::EndRanges(key, ranges, error);
    throw;
  }
  return deliveries;
}

std::shared_ptr<Operation> CardLargeKeys::NewOp(const Call& call, const StoreKey& key, size_t range) const {
  auto op = NewOperation(context_.records(), call.kind, key.id);
  op->range = key.ranges[range].parts;
  op->begins_round = range == 0;
  op->priority = call.options.priority;
  op->latest = call.latest;
  if (op->WantsValue()) {
    op->only().destination = call.destination;
    op->only().destination.leased = std::make_shared<PlacedFrames>();
  }
  if (op->IsPush()) {
    op->samples = call.options.samples;
    op->divisor = call.options.divisor;
    op->exponent = call.exponent;
    op->source = call.source.Slice(key.ranges[range].bytes.offset, key.ranges[range].bytes.bytes);
  }
  return op;
}

}  // namespace sluice::worker

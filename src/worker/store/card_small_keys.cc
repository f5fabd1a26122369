// CardSmallKeys has pointers to what it was given in a call, until Issue. A batch's gradients are summed on
// their card and gathered there into one block, in the order of its keys, which is the order of the bytes of
// the operation. The pulled values are delivered to a block of their own in pinned memory, each at its key's
// place. Invariant: nothing is issued on an array before Issue, which issues all batches. SmallKeys calls it,
// on the thread of the call.
#include "worker/store/card_small_keys.h"

#include <algorithm>
#include <utility>

#include "kvstore/copy_to_gpu.h"
#include "worker/event_completer.h"

namespace sluice::worker {
namespace {

// Whether none of the values is still to be delivered by other workers, for which a batch must not wait.
bool AreComputed(const std::vector<NDArray>& values) {
  return std::ranges::all_of(values, [](const NDArray& value) {
    const Event written = ReadyToRead(value);
    return written.Done() || written.stream() != nullptr;
  });
}

std::vector<Context> ContextsOf(CardSmallKeys::Arrays arrays) {
  std::vector<Context> contexts;
  if (arrays == nullptr) return contexts;
  for (const NDArray& array : *arrays) contexts.push_back(array.context());
  return contexts;
}

bool Shares(CardSmallKeys::Arrays some, CardSmallKeys::Arrays others) {
  if (some == nullptr || others == nullptr) return false;
  return std::ranges::any_of(*some, [&](const NDArray& a) {
    return std::ranges::any_of(*others, [&](const NDArray& b) { return a.SharesStorage(b); });
  });
}

}  // namespace

CardSmallKeys::CardSmallKeys(StoreContext& context, Issuer& issuer, DeviceArrays& arrays)
    : context_(context), issuer_(issuer), arrays_(arrays) {}

bool CardSmallKeys::Accept(StoreKey& key, Arrays values, Arrays outs) {
  if (!OnCards(values) || !OnCards(outs)) return false;
  if (values == nullptr) return true;
  return AreComputed(*values) && arrays_.PlaceOf(key, *values).kind == DeviceKind::kGpu &&
         collective::ExponentOfSum(key.shape.dtype, values->size()) == 0;
}

bool CardSmallKeys::Uses(Arrays values, Arrays outs) const {
  return std::ranges::any_of(batches_, [&](const Batch& batch) {
    return std::ranges::any_of(batch.entries, [&](const Entry& entry) {
      return Shares(entry.outs, values) || Shares(entry.outs, outs) || Shares(entry.values, outs);
    });
  });
}

void CardSmallKeys::Add(const OperationLabels& what, StoreKey& key, Arrays values, Arrays outs) {
  const std::optional<Context> source =
      values == nullptr ? std::nullopt : std::optional(arrays_.PlaceOf(key, *values));
  const std::vector<Context> contexts = ContextsOf(outs);
  const uint64_t after = key.issued.Done() ? 0 : key.issue;
  auto batch = std::ranges::find_if(batches_, [&](const Batch& open) {
    return open.shard == key.shard && open.after == after && open.source == source && open.outs == contexts &&
           open.bytes + key.bytes <= SmallKeyBatch::kMostBytes;
  });
  if (batch == batches_.end())
    batch = batches_.insert(batch, Batch{key.shard, after, source, contexts, 0, {}});
  batch->bytes += key.bytes;
  batch->entries.push_back({&what, &key, values, outs});
}

void CardSmallKeys::Issue(FunctionRef<std::shared_ptr<Operation>()> new_operation, CallBatch& calls) {
  for (const Batch& batch : std::exchange(batches_, {})) IssueBatch(batch, new_operation(), calls);
}

void CardSmallKeys::IssueBatch(const Batch& batch, std::shared_ptr<Operation> op, CallBatch& calls) {
  Events after;
  if (batch.source) {
    std::vector<NDArray> sums;
    for (const Entry& entry : batch.entries) sums.push_back(arrays_.Sum(*entry.key, *entry.values));
    const NDArray sent = HostArray(GatherBytes(sums));
    op->source = HostFrame(sent);
    op->copied = batch.bytes;
    after.push_back(ReadyToRead(sent));
  }
  try {
    AddKeys(batch, op.get(), calls);
  } catch (...) {
    FailKeys(*op, std::current_exception());
    throw;
  }
  std::vector<StoreKey*> keys;
  for (const Entry& entry : batch.entries) keys.push_back(entry.key);
  const OperationLabels& what = *batch.entries.front().what;
  issuer_.Issue(keys.size() == 1 ? what.single : what.batched, keys, std::move(after), std::move(op), calls);
}

void CardSmallKeys::AddKeys(const Batch& batch, Operation* op, CallBatch& calls) {
  for (const Entry& entry : batch.entries)
    op->keys.push_back({.key = entry.key->id, .round = 0, .destination = {}});
  if (batch.outs.empty()) return;
  NDArray block =
      NDArray::Empty({static_cast<int64_t>(batch.bytes)}, HostContextOf(batch.outs.front()), DType::kUInt8);
  const MutableBytes memory = MutableHostBytes(block);
  std::vector<std::vector<BlockPart>> parts(batch.outs.size());  // by output
  std::vector<Event> delivered;
  size_t offset = 0;
  for (size_t i = 0; i < batch.entries.size(); ++i) {
    const Entry& entry = batch.entries[i];
    delivered.push_back(context_.MakeEnd(entry.what->single, calls.may_run_inline()));
    op->keys[i].destination = {memory.subspan(offset, entry.key->bytes), block.storage(), nullptr};
    op->keys[i].callback = ScopedCompleter(delivered.back());
    context_.Trace(delivered.back(), Stage::kBroadcast, entry.key->id, entry.key->round,
                   entry.key->bytes * entry.outs->size());
    for (size_t out = 0; out < parts.size(); ++out) parts[out].push_back({offset, (*entry.outs)[out]});
    offset += entry.key->bytes;
  }
  for (const std::vector<BlockPart>& to : parts)
    kvstore::ScatterToGpuOnceDelivered(block, to, delivered, context_.records());
  for (const Entry& entry : batch.entries) {
    for (const NDArray& out : *entry.outs) SetOrigin(out, entry.key->origin);
  }
}

}  // namespace sluice::worker

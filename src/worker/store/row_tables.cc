// Whole tables of row-sparse keys: lists of rows, their states, and rows that are set. A table may be larger
// than a frame: what does not fit one is pulled or stored in pieces, one after another. The functions keep no
// state. Invariant: every call of the client shares the buffers that it uses with this code, since an answer
// may arrive after a wait was given up. RowSparseKeys and OptimizerStates call this on the program's threads,
// with the store's mutex held; the calls wait for the servers.
#include "worker/store/row_tables.h"

#include <algorithm>
#include <cstring>

#include "kvstore/row_calls.h"
#include "kvstore/rows/row_frame.h"
#include "sluice/error.h"
#include "worker/row_byte_ranges.h"
#include "worker/store/state_calls.h"

namespace sluice::worker {
namespace {

using kvstore::KeyStates;
using kvstore::RowBatch;

// Pulls the states of the rows to `to`, in the order of `ids`, which must ascend.
void PullRowStates(const StoreContext& context, const StoreKey& key, uint32_t slot,
                   std::span<const int64_t> ids, std::byte* to) {
  const size_t each = kvstore::SlotBytes(key.shape.dtype, static_cast<size_t>(key.places.row_elements));
  while (!ids.empty()) {
    const auto piece = ids.first(std::min(ids.size(), RowsOfFrame(each)));
    const RowBatch batch = kvstore::MakeBatch(piece, key.places);
    const auto byte_ranges = std::make_shared<RowByteRanges>();
    byte_ranges->sources = ByteRangesOfIds(batch);
    byte_ranges->destinations = ByteRangesOfRows(batch, each);
    const auto delivered = std::make_shared<Buffer>(BytesOf(byte_ranges->destinations));
    auto op = NewOperation(context.records(), OpKind::kPullRows, key.id);
    op->source = IdFrames(batch, byte_ranges->sources);
    op->only().destination = {delivered->bytes(), delivered};
    op->rows = byte_ranges;
    op->slot = slot;
    op->latest = slot > 0;
    context.Await("pull of rows' states", std::move(op));
    for (uint32_t part = 0; part < key.places.parts; ++part) {
      kvstore::SpreadRows(batch, part, each, delivered->data() + byte_ranges->destinations[part].offset,
                          [to, each](uint32_t i) { return to + i * each; });
    }
    to += piece.size() * each;
    ids = ids.subspan(piece.size());
  }
}

}  // namespace

std::vector<int64_t> RowIds(const StoreContext& context, const StoreKey& key) {
  AwaitRounds(context, key);
  std::vector<int64_t> ids;
  for (uint32_t part = 0; part < key.places.parts; ++part) {
    const auto answer = std::make_shared<wire::RowIds>();
    uint64_t first = 0;
    do {
      context.Await("list of rows", context.Timeout(),
                    [answer, first, ref = wire::PartRef{key.id, part}, timeout = context.Timeout()](
                        Client& client, Time now, transport::Network& network, Done done) {
                      client.requests().GetRowIds(
                          now, ref, first, DeadlineOf(now, timeout),
                          [answer, done](Time, transport::Network&, const Result<wire::Body>& body) {
                            const auto* listed = body ? std::get_if<wire::RowIds>(&body.value()) : nullptr;
                            if (listed != nullptr) *answer = *listed;
                            done(!body ? Status(body.failure())
                                 : listed != nullptr
                                     ? Status::Ok()
                                     : Status(Fail(ErrorCode::kDataLoss, "a shard answered with ",
                                                   wire::BodyName(body.value()))));
                          },
                          network);
                    });
      for (const uint64_t id : answer->ids) ids.push_back(static_cast<int64_t>(id));
      first += answer->ids.size();
    } while (!answer->ids.empty() && first < answer->total);
  }
  std::ranges::sort(ids);
  return ids;
}

void StoreRows(const StoreContext& context, const StoreKey& key, uint32_t slot, uint64_t num_updates,
               std::span<const int64_t> ids, const std::byte* from) {
  const auto row_elements = static_cast<size_t>(key.places.row_elements);
  const DType dtype = slot == 0 ? key.shape.dtype : kvstore::StateType(key.shape.dtype);
  const size_t each = row_elements * SizeOf(dtype);
  while (!ids.empty()) {
    const auto piece = ids.first(std::min(ids.size(), RowsOfFrame(each)));
    const RowBatch batch = kvstore::MakeBatch(piece, key.places);
    const auto byte_ranges = std::make_shared<RowByteRanges>();
    byte_ranges->sources = ByteRangesOfFrames(batch, each);
    const auto frames = std::make_shared<Buffer>(BytesOf(byte_ranges->sources));
    for (uint32_t part = 0; part < key.places.parts; ++part) {
      kvstore::WriteFrame(
          batch, part, dtype, row_elements, [from, each](uint32_t i) { return from + i * each; },
          frames->data() + byte_ranges->sources[part].offset);
    }
    auto op = NewOperation(context.records(), slot == 0 ? OpKind::kRows : OpKind::kState, key.id);
    op->slot = slot;
    op->only().round = num_updates;
    op->source = Frame::Of(frames);
    op->rows = byte_ranges;
    context.Await("store of rows", std::move(op));
    from += piece.size() * each;
    ids = ids.subspan(piece.size());
  }
}

KeyStates PullTableStates(const StoreContext& context, const StoreKey& key, const Optimizer& optimizer) {
  KeyStates states;
  states.rows = RowIds(context, key);
  states.num_updates = PullUpdates(context, key);
  const size_t num_states = kvstore::StateNames(optimizer, key.shape.dtype).size();
  const size_t each = kvstore::SlotBytes(key.shape.dtype, static_cast<size_t>(key.places.row_elements));
  for (uint32_t slot = 1; slot <= num_states; ++slot) {
    Buffer& buffer = states.slots.emplace_back(states.rows.size() * each);
    PullRowStates(context, key, slot, states.rows, buffer.data());
  }
  return states;
}

void StoreTableStates(const StoreContext& context, const StoreKey& key, const KeyStates& states) {
  for (uint32_t slot = 1; slot <= states.slots.size(); ++slot)
    StoreRows(context, key, slot, states.num_updates, states.rows, states.slots[slot - 1].data());
}

}  // namespace sluice::worker

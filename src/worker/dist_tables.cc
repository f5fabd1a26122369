// DistStore: whole tables of row-sparse keys: the list of rows, their states, and rows that are set.
//
// Called by the program's threads, with mutex_ held; all calls wait for the servers. The results
// are exact when no worker pushes the key meanwhile. What does not fit one frame is pulled or
// stored in pieces, one after the other.
#include <algorithm>
#include <cstring>

#include "kvstore/row_calls.h"
#include "kvstore/rows/row_frame.h"
#include "sluice/error.h"
#include "worker/dist_store.h"
#include "worker/row_byte_ranges.h"

namespace sluice::worker {
namespace {

using kvstore::KeyStates;
using kvstore::RowBatch;

}  // namespace

std::vector<int64_t> DistStore::RowIds(const KeyState& key) {
  AwaitRounds(key);
  std::vector<int64_t> ids;
  for (uint32_t part = 0; part < key.places.parts; ++part) {
    const auto answer = std::make_shared<wire::RowIds>();
    uint64_t first = 0;
    do {
      Await("list of rows", Timeout(),
            [answer, first, ref = wire::PartRef{key.id, part}, timeout = Timeout()](
                Client& client, Time now, transport::Network& network, Done done) {
              client.GetRowIds(
                  now, ref, first, DeadlineOf(now, timeout),
                  [answer, done](Time, transport::Network&, const Result<wire::Body>& body) {
                    const auto* listed = body ? std::get_if<wire::RowIds>(&body.value()) : nullptr;
                    if (listed != nullptr) *answer = *listed;
                    done(!body               ? Status(body.failure())
                         : listed != nullptr ? Status::Ok()
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

NDArray DistStore::RowSparseIds(const Key& key) {
  outstanding_.Check();
  const std::lock_guard lock(mutex_);
  KeyState& state = Find("RowSparseIds", key);
  kvstore::RequireRowSparse("RowSparseIds", key, state.shape);
  state.issued.WaitQuietly(Timeout());
  return kvstore::SortedIds(RowIds(state));
}

void DistStore::SetRowSparse(const Key& key, const RowSparse& rows) {
  outstanding_.Check();
  const std::lock_guard lock(mutex_);
  KeyState& state = Find("SetRowSparse", key);
  const std::vector<int64_t> ids = kvstore::ReadIds("SetRowSparse", key, state.shape, {rows});
  kvstore::RequireOnce("SetRowSparse", key, kvstore::MakeBatch(ids, state.places));
  if (rank_ != 0) return;
  const kvstore::HostRows host = kvstore::HostRows::ToRead({rows});
  host.WaitToRead();
  if (!ids.empty()) StoreRows(state, 0, 0, ids, host.At(0));
}

void DistStore::PullRowStates(const KeyState& key, uint32_t slot, std::span<const int64_t> ids,
                              std::byte* to) {
  const size_t each = kvstore::SlotBytes(key.shape.dtype, static_cast<size_t>(key.places.row_elements));
  while (!ids.empty()) {
    const auto piece = ids.first(std::min(ids.size(), RowsOfFrame(each)));
    const RowBatch batch = kvstore::MakeBatch(piece, key.places);
    const auto byte_ranges = std::make_shared<RowByteRanges>();
    byte_ranges->sources = ByteRangesOfIds(batch);
    byte_ranges->destinations = ByteRangesOfRows(batch, each);
    const auto delivered = std::make_shared<Buffer>(BytesOf(byte_ranges->destinations));
    const auto args = std::make_shared<const PullRowsArgs>(PullRowsArgs{key.id,
                                                                        IdFrames(batch, byte_ranges->sources),
                                                                        {delivered->bytes(), delivered},
                                                                        byte_ranges,
                                                                        0,
                                                                        slot});
    Await("pull of rows' states", Timeout(),
          [args, timeout = Timeout()](Client& client, Time now, transport::Network& network, Done done) {
            client.PullRows(now, *args, DeadlineOf(now, timeout), std::move(done), network);
          });
    for (uint32_t part = 0; part < key.places.parts; ++part) {
      kvstore::SpreadRows(batch, part, each, delivered->data() + byte_ranges->destinations[part].offset,
                          [to, each](uint32_t i) { return to + i * each; });
    }
    to += piece.size() * each;
    ids = ids.subspan(piece.size());
  }
}

void DistStore::StoreRows(const KeyState& key, uint32_t slot, uint64_t num_updates,
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
    const auto args = std::make_shared<const StoreRowsArgs>(
        StoreRowsArgs{key.id, slot, num_updates, Frame::Of(frames), byte_ranges});
    Await("store of rows", Timeout(),
          [args, timeout = Timeout()](Client& client, Time now, transport::Network& network, Done done) {
            client.StoreRows(now, *args, DeadlineOf(now, timeout), std::move(done), network);
          });
    from += piece.size() * each;
    ids = ids.subspan(piece.size());
  }
}

KeyStates DistStore::PullTableStates(const KeyState& key) {
  KeyStates states;
  states.rows = RowIds(key);
  states.num_updates = PullUpdates(key);
  const size_t num_states = kvstore::StateNames(*optimizer_, key.shape.dtype).size();
  const size_t each = kvstore::SlotBytes(key.shape.dtype, static_cast<size_t>(key.places.row_elements));
  for (uint32_t slot = 1; slot <= num_states; ++slot) {
    Buffer& buffer = states.slots.emplace_back(states.rows.size() * each);
    PullRowStates(key, slot, states.rows, buffer.data());
  }
  return states;
}

void DistStore::StoreTableStates(const KeyState& key, const KeyStates& states) {
  for (uint32_t slot = 1; slot <= states.slots.size(); ++slot)
    StoreRows(key, slot, states.num_updates, states.rows, states.slots[slot - 1].data());
}

}  // namespace sluice::worker

// RowSparseKeys: pushes and pulls of rows.
//
// DistStore calls this on the program's threads, with its mutex held. Push and Pull read the ids of the rows
// here and then return, as for dense keys. The rows themselves are gathered or spread by host_work, when the
// arrays are ready or the values have arrived.
#include "worker/store/row_sparse_keys.h"

#include <algorithm>

#include "base/strings.h"
#include "kvstore/row_calls.h"
#include "kvstore/rows/row_frame.h"
#include "sluice/error.h"
#include "wire/codec.h"
#include "worker/row_byte_ranges.h"
#include "worker/store/row_tables.h"

namespace sluice::worker {
namespace {

using kvstore::HostRows;
using kvstore::RowBatch;

// Throws kResourceExhausted when a frame is too large. A push cannot be split: it is one round of each part,
// and all rows of a part are sent in one frame.
void RequireFrames(const Key& key, const RowBatch& batch, const std::vector<ByteRange>& frames) {
  const auto largest = std::ranges::max_element(frames, {}, &ByteRange::bytes);
  if (largest->bytes <= wire::kMostFrameBytes) return;
  const auto part = static_cast<uint32_t>(largest - frames.begin());
  throw Error(ErrorCode::kResourceExhausted,
              StrCat("PushRowSparse of key ", ToString(key), ": ", batch.size(),
                     " different rows are too many for one call: those of part ", part, " of the table's ",
                     frames.size(), ", ", batch.RowsOf(part), " rows, take ", largest->bytes,
                     " bytes, and what travels at once has at most ", wire::kMostFrameBytes,
                     "; push fewer rows at a time, or use more servers"));
}

// Some of the rows of a pull, few enough for the answer of each part to fit a frame.
struct PulledRows {
  PulledRows(std::span<const int64_t> ids, uint32_t first, const plan::RowPlaces& places, size_t row_bytes)
      : first(first),
        batch(kvstore::MakeBatch(ids, places)),
        byte_ranges(std::make_shared<RowByteRanges>()),
        row_bytes(row_bytes) {
    byte_ranges->sources = ByteRangesOfIds(batch);
    byte_ranges->destinations = ByteRangesOfRows(batch, row_bytes);
    delivered = std::make_shared<Buffer>(BytesOf(byte_ranges->destinations));
  }
  std::shared_ptr<Operation> NewPull(const std::shared_ptr<Allocator>& records, uint32_t key,
                                     int priority) const {
    auto op = NewOperation(records, OpKind::kPullRows, key);
    op->source = IdFrames(batch, byte_ranges->sources);
    op->only().destination = {delivered->bytes(), delivered};
    op->rows = byte_ranges;
    op->priority = priority;
    return op;
  }
  void SpreadTo(const HostRows& outs) const {
    for (uint32_t part = 0; part < byte_ranges->destinations.size(); ++part) {
      kvstore::SpreadRows(batch, part, row_bytes, delivered->data() + byte_ranges->destinations[part].offset,
                          [&](uint32_t i) { return outs.At(first + i); });
    }
  }

  uint32_t first;  // position of the first row in the call
  RowBatch batch;
  std::shared_ptr<RowByteRanges> byte_ranges;
  std::shared_ptr<Buffer> delivered;
  size_t row_bytes;
};

bool Fit(const std::vector<ByteRange>& byte_ranges) {
  return std::ranges::all_of(
      byte_ranges, [](const ByteRange& byte_range) { return byte_range.bytes <= wire::kMostFrameBytes; });
}

// Divides the rows of a pull: into one piece if its answers fit frames, else into pieces that do, even
// if all their rows are of one part.
std::vector<PulledRows> PiecesOf(std::span<const int64_t> ids, const plan::RowPlaces& places,
                                 size_t row_bytes) {
  std::vector<PulledRows> pieces;
  pieces.emplace_back(ids, 0, places, row_bytes);
  if (const RowByteRanges& all = *pieces.front().byte_ranges; Fit(all.sources) && Fit(all.destinations))
    return pieces;
  pieces.clear();
  const size_t most = RowsOfFrame(row_bytes);
  for (size_t first = 0; first < ids.size(); first += most)
    pieces.emplace_back(ids.subspan(first, std::min(most, ids.size() - first)), static_cast<uint32_t>(first),
                        places, row_bytes);
  return pieces;
}

}  // namespace

void RowSparseKeys::Push(const Key& key, const std::vector<RowSparse>& gradients,
                         const PushOptions& options) {
  StoreKey& table = keys_.Find("PushRowSparse", key);
  const std::vector<int64_t> ids = kvstore::ReadIds("PushRowSparse", key, table.shape, gradients);
  kvstore::RequireDivisor("PushRowSparse", key, table.shape.dtype, options);

  struct Work {
    RowBatch batch;
    HostRows gradients;
    std::shared_ptr<const RowByteRanges> byte_ranges;
    std::shared_ptr<Buffer> frames;
    DType dtype;
    size_t row_elements;
    std::shared_ptr<Operation> push;  // gets its exponent here, before it is submitted

    void operator()() const {
      push->exponent = kvstore::WriteFrames(
          batch, dtype, row_elements, [this](uint32_t i) { return gradients.At(i); },
          [this](uint32_t part) { return frames->data() + byte_ranges->sources[part].offset; });
    }
  };
  const auto row_elements = static_cast<size_t>(table.places.row_elements);
  RowBatch batch = kvstore::MakeBatch(ids, table.places);
  const auto byte_ranges = std::make_shared<RowByteRanges>();
  byte_ranges->sources = ByteRangesOfFrames(batch, row_elements * SizeOf(table.shape.dtype));
  RequireFrames(key, batch, byte_ranges->sources);
  const auto frames = std::make_shared<Buffer>(BytesOf(byte_ranges->sources), context_.options().memory);
  auto op = NewOperation(context_.records(), OpKind::kPush, table.id);
  op->source = Frame::Of(frames);
  op->rows = byte_ranges;
  op->priority = options.priority;
  op->samples = options.samples;
  op->divisor = options.divisor;
  const auto work =
      std::make_shared<const Work>(Work{std::move(batch), HostRows::ToRead(gradients), byte_ranges, frames,
                                        table.shape.dtype, row_elements, op});
  ++table.round;
  const Event summed = context_.options().host_work(work->gradients.context(), table.push.single,
                                                    work->gradients.Readable(), [work] { (*work)(); });
  work->gradients.AddReaders(summed);
  context_.Trace(summed, Stage::kReduce, table.id, table.round, frames->size());
  CallBatch calls = issuer_.NewCallBatch(1);
  issuer_.Issue(table.push.single, table, {summed}, std::move(op), calls);
}

void RowSparseKeys::Pull(const Key& key, const std::vector<RowSparse>& outs, int priority) {
  StoreKey& table = keys_.Find("RowSparsePull", key);
  const std::vector<int64_t> ids = kvstore::ReadIds("RowSparsePull", key, table.shape, outs);

  struct Work {
    std::vector<PulledRows> pieces;
    HostRows outs;

    void operator()() const {
      for (const PulledRows& piece : pieces) piece.SpreadTo(outs);
    }
  };
  const size_t row_bytes = static_cast<size_t>(table.places.row_elements) * SizeOf(table.shape.dtype);
  const auto work =
      std::make_shared<Work>(Work{PiecesOf(ids, table.places, row_bytes), HostRows::ToWrite(outs)});
  CallBatch calls = issuer_.NewCallBatch(work->pieces.size());
  Events after = work->outs.Writable();
  for (const PulledRows& piece : work->pieces) {
    auto op = piece.NewPull(context_.records(), table.id, priority);
    after.push_back(issuer_.Issue(table.pull.single, table, {}, std::move(op), calls));
  }
  const Event spread =
      context_.options().host_work(work->outs.context(), table.pull.single, after, [work] { (*work)(); });
  work->outs.Deliver(spread);
  context_.Trace(spread, Stage::kBroadcast, table.id, table.round, ids.size() * row_bytes);
}

NDArray RowSparseKeys::Ids(const Key& key) {
  StoreKey& table = keys_.Find("RowSparseIds", key);
  kvstore::RequireRowSparse("RowSparseIds", key, table.shape);
  table.issued.WaitQuietly(context_.Timeout());
  return kvstore::SortedIds(RowIds(context_, table));
}

void RowSparseKeys::Set(const Key& key, const RowSparse& rows) {
  StoreKey& table = keys_.Find("SetRowSparse", key);
  const std::vector<int64_t> ids = kvstore::ReadIds("SetRowSparse", key, table.shape, {rows});
  kvstore::RequireOnce("SetRowSparse", key, kvstore::MakeBatch(ids, table.places));
  if (context_.rank() != 0) return;
  const kvstore::HostRows host = kvstore::HostRows::ToRead({rows});
  host.WaitToRead();
  if (!ids.empty()) StoreRows(context_, table, 0, 0, ids, host.At(0));
}

}  // namespace sluice::worker

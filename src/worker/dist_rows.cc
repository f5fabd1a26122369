// Row-sparse keys of a distributed store.
#include <algorithm>

#include "base/strings.h"
#include "kvstore/row_calls.h"
#include "kvstore/rows/frame.h"
#include "sluice/error.h"
#include "wire/codec.h"
#include "worker/dist_store.h"
#include "worker/row_extents.h"

namespace sluice::worker {
namespace {

using kvstore::HostRows;
using kvstore::RowBatch;

// A part travels in one frame.
void RequireFrames(const std::string& what, const Key& key, const RowBatch& batch,
                   const std::vector<Extent>& extents) {
  const size_t most = wire::Limits().max_frame_bytes;
  if (std::ranges::all_of(extents, [most](const Extent& extent) { return extent.bytes <= most; })) return;
  throw Error(ErrorCode::kResourceExhausted,
              StrCat(what, " of key ", ToString(key), ": ", batch.size(),
                     " different rows are too many for one call: one of the table's ", extents.size(),
                     " parts would travel in more than ", most, " bytes; use several calls or more servers"));
}

}  // namespace

void DistStore::InitRowSparse(const Key& key, const Shape& shape, DType dtype, const RowInit& init) {
  outstanding_.Check();
  kvstore::RequireTable(key, shape, dtype, init);
  Declare({{{key, dtype, shape, options_.number, init}, Frame()}});
}

void DistStore::PushRowSparse(const Key& key, const std::vector<RowSparse>& gradients,
                              const PushOptions& options) {
  outstanding_.Check();
  const std::lock_guard lock(mutex_);
  KeyState& state = Find("PushRowSparse", key);
  const std::vector<int64_t> ids = kvstore::ReadIds("PushRowSparse", key, state.shape, gradients);
  kvstore::RequireDivisor("PushRowSparse", key, state.shape.dtype, options);

  struct Work {
    RowBatch batch;
    HostRows gradients;
    std::shared_ptr<const RowExtents> extents;
    std::shared_ptr<Buffer> frames;
    DType dtype;
    size_t row_elements;

    void operator()() const {
      for (uint32_t part = 0; part < extents->sources.size(); ++part) {
        kvstore::WriteFrame(
            batch, part, dtype, row_elements, [this](uint32_t i) { return gradients.At(i); },
            frames->data() + extents->sources[part].offset);
      }
    }
  };
  const auto row_elements = static_cast<size_t>(state.places.row_elements);
  RowBatch batch = kvstore::MakeBatch(ids, state.places);
  const auto extents = std::make_shared<RowExtents>();
  extents->sources = LayFrames(batch, row_elements * SizeOf(state.shape.dtype));
  RequireFrames("PushRowSparse", key, batch, extents->sources);
  const auto frames = std::make_shared<Buffer>(BytesOf(extents->sources), options_.memory);
  const auto work = std::make_shared<const Work>(
      Work{std::move(batch), HostRows::ToRead(gradients), extents, frames, state.shape.dtype, row_elements});
  ++state.round;
  const Event summed = options_.host_work(work->gradients.context(), state.push.alone,
                                          work->gradients.Readable(), [work] { (*work)(); });
  work->gradients.AddReaders(summed);
  Trace(summed, Stage::kReduce, state, frames->size());
  const auto args = std::make_shared<const PushRowsArgs>(
      PushRowsArgs{state.id, Frame::Of(frames), extents, options.priority, options.samples, options.divisor});
  auto call = [args](Client& client, Time now, transport::Network& network, const Completes& end) {
    client.PushRows(now, *args, end, network);
  };
  Handover calls = Calls(1);
  Issue(state.push.alone, state, {summed}, std::move(call), calls);
}

void DistStore::RowSparsePull(const Key& key, const std::vector<RowSparse>& outs, int priority) {
  outstanding_.Check();
  const std::lock_guard lock(mutex_);
  KeyState& state = Find("RowSparsePull", key);
  const std::vector<int64_t> ids = kvstore::ReadIds("RowSparsePull", key, state.shape, outs);

  struct Work {
    RowBatch batch;
    HostRows outs;
    std::shared_ptr<const RowExtents> extents;
    std::shared_ptr<Buffer> rows;  // as they land
    size_t row_bytes;

    void operator()() const {
      for (uint32_t part = 0; part < extents->destinations.size(); ++part) {
        kvstore::SpreadRows(batch, part, row_bytes, rows->data() + extents->destinations[part].offset,
                            [this](uint32_t i) { return outs.At(i); });
      }
    }
  };
  const size_t row_bytes = static_cast<size_t>(state.places.row_elements) * SizeOf(state.shape.dtype);
  RowBatch batch = kvstore::MakeBatch(ids, state.places);
  const auto extents = std::make_shared<RowExtents>();
  extents->sources = LayIds(batch);
  extents->destinations = LayRows(batch, row_bytes);
  RequireFrames("RowSparsePull", key, batch, extents->sources);
  RequireFrames("RowSparsePull", key, batch, extents->destinations);
  const Frame wanted = IdFrames(batch, extents->sources);
  const auto rows = std::make_shared<Buffer>(BytesOf(extents->destinations));
  const auto work =
      std::make_shared<Work>(Work{std::move(batch), HostRows::ToWrite(outs), extents, rows, row_bytes});
  const auto args = std::make_shared<const PullRowsArgs>(
      PullRowsArgs{state.id, wanted, {rows->bytes(), rows}, extents, priority});
  auto call = [args, deadline = Deadline(options_.timeout)](
                  Client& client, Time now, transport::Network& network, const Completes& end) {
    client.PullRows(now, *args, deadline, end, network);
  };
  Handover calls = Calls(1);
  const Event landed = Issue(state.pull.alone, state, {}, std::move(call), calls);
  Events after = work->outs.Writable();
  after.push_back(landed);
  const Event spread =
      options_.host_work(work->outs.context(), state.pull.alone, after, [work] { (*work)(); });
  work->outs.Deliver(spread);
  Trace(spread, Stage::kBroadcast, state, ids.size() * row_bytes);
}

}  // namespace sluice::worker

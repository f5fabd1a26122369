// LocalRowSparseKeys: tables in host memory.
//
// LocalStore calls this on the program's threads, with its mutex held. Every operation on a table waits for
// the one before (LocalKey::rows_used), since a RowTable has one user at a time. Pushes and pulls run on
// the stream of the arrays' context; calls that need the table at once wait for rows_used on the caller's
// thread.
#include "kvstore/local/local_row_sparse_keys.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/strings.h"
#include "kvstore/row_calls.h"
#include "kvstore/rows/update_rows.h"
#include "sluice/error.h"
#include "tensor/access.h"

namespace sluice::kvstore {
namespace {

// A table of a local store is one part.
plan::RowPlaces PlacesOf(const KeyShape& table) {
  return {.rows = table.shape[0], .row_elements = table.shape.size() / table.shape[0], .parts = 1};
}

}  // namespace

void LocalRowSparseKeys::Init(const Key& key, const Shape& shape, DType dtype, const RowInit& init) {
  RequireTable(key, shape, dtype, init);
  const wire::KeySpec spec{.name = key, .dtype = dtype, .shape = shape, .rows = init};
  keys_.RequireNew(key, spec, settings_.rule);
  LocalKey table;
  table.shape = {shape, dtype, true};
  table.spec = spec;
  table.rows = std::make_shared<RowTable>(spec);
  table.push_name = "push of key " + ToString(key);
  table.pull_name = "pull of key " + ToString(key);
  keys_.Add(key, std::move(table));
}

void LocalRowSparseKeys::Push(const Key& key, const std::vector<RowSparse>& gradients,
                              const PushOptions& options) {
  LocalKey& table = keys_.Find("PushRowSparse", key);
  const std::vector<int64_t> ids = ReadIds("PushRowSparse", key, table.shape, gradients);
  RequireDivisor("PushRowSparse", key, table.shape.dtype, options);
  if (settings_.updater) return UpdateByFunction(key, table, ids, gradients, options.divisor);
  std::optional<UpdateInput> input = NextUpdate(settings_.rule, &table, options);
  if (!input) return;
  struct Work {
    UpdateRule rule;
    wire::KeySpec spec;
    UpdateInput input;
    RowBatch batch;
    HostRows gradients;
    std::shared_ptr<RowTable> table;

    void operator()() {
      input.spec = &spec;
      Buffer frame(RowFrame::BytesOf(batch.size(), table->row_bytes()));
      const uint32_t exponent = WriteFrames(
          batch, spec.dtype, table->row_elements(), [this](uint32_t i) { return gradients.At(i); },
          [&frame](uint32_t) { return frame.data(); });
      input.scale = std::ldexp(input.scale, static_cast<int>(exponent));
      const RowFrame pushed(frame.bytes(), table->row_bytes());
      UpdateRows(rule, input, std::span(&pushed, 1), table.get());
    }
  };
  const auto work =
      std::make_shared<Work>(Work{settings_.rule, table.spec, *input, MakeBatch(ids, PlacesOf(table.shape)),
                                  HostRows::ToRead(gradients), table.rows});
  Events after = work->gradients.Readable();
  after.push_back(table.rows_used.Quietly());
  table.rows_used = EnqueueOn(work->gradients.context(), table.push_name, after, [work] { (*work)(); });
  work->gradients.AddReaders(table.rows_used);
  context_.outstanding.Add(table.push_name, table.rows_used);
}

void LocalRowSparseKeys::UpdateByFunction(const Key& key, LocalKey& found, std::span<const int64_t> ids,
                                          const std::vector<RowSparse>& gradients, double divisor) {
  if (ids.empty()) return;
  RowTable& table = *found.rows;
  const HostRows pushed = HostRows::ToRead(gradients);
  pushed.WaitToRead();
  found.rows_used.WaitQuietly(context_.timeout);
  const RowBatch batch = MakeBatch(ids, PlacesOf(found.shape));
  Buffer bytes(RowFrame::BytesOf(batch.size(), table.row_bytes()));
  const auto at = [&](uint32_t i) { return pushed.At(i); };
  uint32_t exponent =
      0;  // without a division the rows hold the sums themselves, which must fit the key's type
  if (divisor == 1) {
    WriteFrame(batch, 0, found.shape.dtype, table.row_elements(), at, bytes.data());
  } else {
    exponent = WriteFrames(batch, found.shape.dtype, table.row_elements(), at,
                           [&](uint32_t) { return bytes.data(); });
  }
  const RowFrame frame(bytes.bytes(), table.row_bytes());
  const Shape shape = found.shape.shape.WithExtent(0, static_cast<int64_t>(batch.size()));
  NDArray gradient = NDArray::Empty(shape, cpu(0), found.shape.dtype);
  NDArray weight = NDArray::Empty(shape, cpu(0), found.shape.dtype);
  std::byte *to_gradient = MutableHostBytes(gradient).data(), *to_weight = MutableHostBytes(weight).data();
  for (size_t i = 0; i < batch.size(); ++i) {
    std::memcpy(to_gradient + i * table.row_bytes(), frame.row(i), table.row_bytes());
    table.Read(frame.id(i), to_weight + i * table.row_bytes());
  }
  const double factor = std::ldexp(1 / divisor, static_cast<int>(exponent));
  context_.updater_runner.Run(settings_.updater, key, gradient, factor, weight);
  weight.WaitToRead();
  RequireFit("the updater's weight", key, {shape, found.shape.dtype}, {weight});
  const Bytes updated = HostBytes(weight);
  for (size_t i = 0; i < batch.size(); ++i)
    std::memcpy(table.Weight(table.Touch(frame.id(i))), updated.data() + i * table.row_bytes(),
                table.row_bytes());
}

void LocalRowSparseKeys::Pull(const Key& key, const std::vector<RowSparse>& outs) {
  LocalKey& table = keys_.Find("RowSparsePull", key);
  const std::vector<int64_t> ids = ReadIds("RowSparsePull", key, table.shape, outs);
  struct Work {
    RowBatch batch;
    HostRows outs;
    std::shared_ptr<const RowTable> table;

    void operator()() const {
      Buffer row(table->row_bytes());
      for (size_t i = 0; i < batch.size(); ++i) {
        table->Read(batch.ids[i], row.data());
        for (const uint32_t position : batch.PositionsOf(i))
          std::memcpy(outs.At(position), row.data(), row.size());
      }
    }
  };
  const auto work = std::make_shared<Work>(
      Work{MakeBatch(ids, PlacesOf(table.shape)), HostRows::ToWrite(outs), table.rows});
  Events after = work->outs.Writable();
  after.push_back(table.rows_used.Quietly());
  table.rows_used = EnqueueOn(work->outs.context(), table.pull_name, after, [work] { (*work)(); });
  work->outs.Deliver(table.rows_used);
}

NDArray LocalRowSparseKeys::Ids(const Key& key) {
  LocalKey& table = keys_.Find("RowSparseIds", key);
  RequireRowSparse("RowSparseIds", key, table.shape);
  table.rows_used.WaitQuietly(context_.timeout);
  const std::span<const int64_t> ids = table.rows->ids();
  return SortedIds({ids.begin(), ids.end()});
}

void LocalRowSparseKeys::Set(const Key& key, const RowSparse& rows) {
  LocalKey& table = keys_.Find("SetRowSparse", key);
  const std::vector<int64_t> ids = ReadIds("SetRowSparse", key, table.shape, {rows});
  RequireOnce("SetRowSparse", key, MakeBatch(ids, PlacesOf(table.shape)));
  const HostRows host = HostRows::ToRead({rows});
  host.WaitToRead();
  table.rows_used.WaitQuietly(context_.timeout);
  for (uint32_t i = 0; i < ids.size(); ++i)
    std::memcpy(table.rows->Weight(table.rows->Touch(ids[i])), host.At(i), table.rows->row_bytes());
}

}  // namespace sluice::kvstore

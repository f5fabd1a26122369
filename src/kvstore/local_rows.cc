// Row-sparse keys of the stores of one process: tables in host memory.
//
// Every operation on a table waits for the one before (KeyState::rows_used), since a RowTable has
// one user at a time. Pushes and pulls run on the stream of the arrays' context; calls that need
// the table at once wait for rows_used on the caller's thread. mutex_ is held during every call.
#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "kvstore/local_store.h"
#include "kvstore/row_calls.h"
#include "kvstore/rows/update_rows.h"
#include "sluice/error.h"

namespace sluice::kvstore {
namespace {

// A table of a local store is one part.
plan::RowPlaces PlacesOf(const KeyShape& table) {
  return {.rows = table.shape[0], .row_elements = table.shape.size() / table.shape[0], .parts = 1};
}

}  // namespace

void LocalStore::InitRowSparse(const Key& key, const Shape& shape, DType dtype, const RowInit& init) {
  const MutexLock lock(MutexForCall());
  RequireTable(key, shape, dtype, init);
  const wire::KeySpec spec{.name = key, .dtype = dtype, .shape = shape, .rows = init};
  RequireNew(key, spec);
  KeyState state;
  state.shape = {shape, dtype, true};
  state.spec = spec;
  state.rows = std::make_shared<RowTable>(spec);
  state.push_name = "push of key " + ToString(key);
  state.pull_name = "pull of key " + ToString(key);
  keys_.emplace(key, std::move(state));
}

void LocalStore::PushRowSparse(const Key& key, const std::vector<RowSparse>& gradients,
                               const PushOptions& options) {
  outstanding_.Check();
  const MutexLock lock(MutexForCall());
  KeyState& state = Find("PushRowSparse", key);
  const std::vector<int64_t> ids = ReadIds("PushRowSparse", key, state.shape, gradients);
  RequireDivisor("PushRowSparse", key, state.shape.dtype, options);
  if (updater_) return UpdateRowsByFunction(key, state, ids, gradients);
  std::optional<UpdateInput> input = NextUpdate(state, options);
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
      std::make_shared<Work>(Work{rule_, state.spec, *input, MakeBatch(ids, PlacesOf(state.shape)),
                                  HostRows::ToRead(gradients), state.rows});
  Events after = work->gradients.Readable();
  after.push_back(state.rows_used.Quietly());
  state.rows_used = EnqueueOn(work->gradients.context(), state.push_name, after, [work] { (*work)(); });
  work->gradients.AddReaders(state.rows_used);
  outstanding_.Add(state.push_name, state.rows_used);
}

void LocalStore::UpdateRowsByFunction(const Key& key, KeyState& state, std::span<const int64_t> ids,
                                      const std::vector<RowSparse>& gradients) {
  if (ids.empty()) return;
  RowTable& table = *state.rows;
  const HostRows pushed = HostRows::ToRead(gradients);
  pushed.WaitToRead();
  state.rows_used.WaitQuietly(timeout_);
  const RowBatch batch = MakeBatch(ids, PlacesOf(state.shape));
  Buffer bytes(RowFrame::BytesOf(batch.size(), table.row_bytes()));
  WriteFrame(
      batch, 0, state.shape.dtype, table.row_elements(), [&](uint32_t i) { return pushed.At(i); },
      bytes.data());
  const RowFrame frame(bytes.bytes(), table.row_bytes());
  const Shape shape = state.shape.shape.WithExtent(0, static_cast<int64_t>(batch.size()));
  NDArray gradient = NDArray::Empty(shape, cpu(0), state.shape.dtype);
  NDArray weight = NDArray::Empty(shape, cpu(0), state.shape.dtype);
  std::byte *to_gradient = MutableHostBytes(gradient).data(), *to_weight = MutableHostBytes(weight).data();
  for (size_t i = 0; i < batch.size(); ++i) {
    std::memcpy(to_gradient + i * table.row_bytes(), frame.row(i), table.row_bytes());
    table.Read(frame.id(i), to_weight + i * table.row_bytes());
  }
  RunUpdater(key, gradient, weight);
  weight.WaitToRead();
  RequireFit("the updater's weight", key, {shape, state.shape.dtype}, {weight});
  const Bytes updated = HostBytes(weight);
  for (size_t i = 0; i < batch.size(); ++i)
    std::memcpy(table.Weight(table.Touch(frame.id(i))), updated.data() + i * table.row_bytes(),
                table.row_bytes());
}

void LocalStore::RowSparsePull(const Key& key, const std::vector<RowSparse>& outs, int) {
  outstanding_.Check();
  const MutexLock lock(MutexForCall());
  KeyState& state = Find("RowSparsePull", key);
  const std::vector<int64_t> ids = ReadIds("RowSparsePull", key, state.shape, outs);
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
      Work{MakeBatch(ids, PlacesOf(state.shape)), HostRows::ToWrite(outs), state.rows});
  Events after = work->outs.Writable();
  after.push_back(state.rows_used.Quietly());
  state.rows_used = EnqueueOn(work->outs.context(), state.pull_name, after, [work] { (*work)(); });
  work->outs.Deliver(state.rows_used);
}

NDArray LocalStore::RowSparseIds(const Key& key) {
  outstanding_.Check();
  const MutexLock lock(MutexForCall());
  KeyState& state = Find("RowSparseIds", key);
  RequireRowSparse("RowSparseIds", key, state.shape);
  state.rows_used.WaitQuietly(timeout_);
  const std::span<const int64_t> ids = state.rows->ids();
  return SortedIds({ids.begin(), ids.end()});
}

void LocalStore::SetRowSparse(const Key& key, const RowSparse& rows) {
  outstanding_.Check();
  const MutexLock lock(MutexForCall());
  KeyState& state = Find("SetRowSparse", key);
  const std::vector<int64_t> ids = ReadIds("SetRowSparse", key, state.shape, {rows});
  RequireOnce("SetRowSparse", key, MakeBatch(ids, PlacesOf(state.shape)));
  const HostRows host = HostRows::ToRead({rows});
  host.WaitToRead();
  state.rows_used.WaitQuietly(timeout_);
  for (uint32_t i = 0; i < ids.size(); ++i)
    std::memcpy(state.rows->Weight(state.rows->Touch(ids[i])), host.At(i), state.rows->row_bytes());
}

KeyStates LocalStore::StatesOfTable(KeyState& state) const {
  RowTable& table = *state.rows;
  table.FitStates(rule_.optimizer.get());
  KeyStates saved{.num_updates = static_cast<uint64_t>(state.num_updates), .slots = {}, .rows = {}};
  saved.rows.assign(table.ids().begin(), table.ids().end());
  std::ranges::sort(saved.rows);
  for (size_t slot = 0; slot < table.num_states(); ++slot) {
    Buffer& copy = saved.slots.emplace_back(saved.rows.size() * table.state_bytes());
    for (size_t i = 0; i < saved.rows.size(); ++i)
      table.ReadState(slot, saved.rows[i], copy.data() + i * table.state_bytes());
  }
  return saved;
}

void LocalStore::SetStatesOfTable(KeyState& state, const KeyStates& loaded) const {
  RowTable& table = *state.rows;
  table.FitStates(rule_.optimizer.get());
  for (size_t i = 0; i < loaded.rows.size(); ++i) {
    const size_t row = table.Touch(loaded.rows[i]);
    for (size_t slot = 0; slot < table.num_states(); ++slot)
      std::memcpy(table.State(slot, row), loaded.slots[slot].data() + i * table.state_bytes(),
                  table.state_bytes());
  }
}

}  // namespace sluice::kvstore

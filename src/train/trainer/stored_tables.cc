// StoredTables: row-sparse keys of parameters (stored_tables.h).
//
// Every row of a key is set when the key is made, so the store never draws initial values. Arrays that the
// program has written are not fetched over: Changed finds them, and the next step sets the key.
// ParameterTables calls Make, Push and Set; layers and SaveParameters fetch, through the parameter.
#include "train/trainer/stored_tables.h"

#include <algorithm>

#include "autograd/numbers.h"
#include "base/strings.h"
#include "sluice/autograd.h"
#include "sluice/error.h"
#include "tensor/access.h"
#include "train/trainer/table_rows.h"

namespace sluice::internal {
namespace {

// Calls each(first, last) for pieces of a table of at most 16 MiB.
template <typename Each>
void ForRowPieces(const Shape& table, Each each) {
  const int64_t row_bytes = std::max<int64_t>(1, table[1]) * static_cast<int64_t>(sizeof(float));
  const int64_t most = std::max<int64_t>(1, (int64_t{16} << 20) / row_bytes);
  for (int64_t first = 0; first < table[0]; first += most) each(first, std::min(table[0], first + most));
}

NDArray IdsOf(int64_t first, int64_t last) {
  return NumberArray(NumbersFrom(first, last - first));
}

}  // namespace

std::string StoredTables::Make(TrackedParameter& tracked) {
  nn::Parameter& parameter = *tracked.parameter;
  const Key& key = tracked.keys.front();
  parameter.rows().FetchAll();  // the newest values may be those of a Trainer before
  store_.InitRowSparse(key, parameter.shape());
  Follow(tracked);
  const NDArray& values = parameter.list_data().front();
  if (store_.rank() != 0) return "";
  if (store_.RowSparseIds(key).size() == 0) {
    Set(tracked, values);
    return "";
  }
  NDArray stored = NDArray::Empty(values.shape(), HostContextOf(values.context()));
  PullAll(key, {stored});
  const NDArray own = HostArray(values);
  own.WaitToRead();
  if (std::ranges::equal(HostBytes(stored), HostBytes(own))) return "";
  return StrCat(
      "the servers have other values of ", parameter.name(),
      " than this Trainer: the store serves another Trainer, which has made and trained it. Give this "
      "network a store of its own (KVStore::Create), or go on from the trained values");
}

void StoredTables::Follow(TrackedParameter& tracked) {
  tables_[tracked.parameter.get()] = &tracked;
  tracked.stored.Note(tracked.parameter->list_data());
}

void StoredTables::Push(const TrackedParameter& tracked, const PushOptions& options) {
  std::vector<RowSparse> gradients = tracked.RowGradients();
  if (gradients.empty())
    gradients.push_back(
        {NumberArray({}), EmptyRows(tracked.parameter->list_data().front(), 0, cpu_pinned(0))});
  store_.PushRowSparse(tracked.keys.front(), gradients, options);
}

void StoredTables::Set(const TrackedParameter& tracked, const NDArray& written) {
  const autograd::PauseScope pause;
  ForRowPieces(written.shape(), [&](int64_t first, int64_t last) {
    store_.SetRowSparse(tracked.keys.front(), {IdsOf(first, last), written.SliceRows(first, last)});
  });
}

void StoredTables::Fetch(nn::Parameter& parameter, const NDArray& ids) {
  TrackedParameter& tracked = Of(parameter);
  if (tracked.stored.Changed(parameter.list_data()) != nullptr) return;
  NDArray& table = parameter.data(ids.context());
  const std::vector<int64_t> wanted = DistinctIds(ids, table.shape()[0]);
  if (wanted.empty()) return;
  NDArray rows = EmptyRows(table, wanted.size(), table.context());
  store_.RowSparsePull(tracked.keys.front(), NumberArray(wanted), rows);
  PutRows(rows, wanted, table);
  tracked.stored.Note(parameter.list_data());
}

void StoredTables::FetchAll(nn::Parameter& parameter) {
  TrackedParameter& tracked = Of(parameter);
  if (tracked.stored.Changed(parameter.list_data()) != nullptr) return;
  try {
    PullAll(tracked.keys.front(), parameter.list_data());
  } catch (...) {
    tracked.stored.Note(parameter.list_data());  // what is half fetched is not the program's: fetch it again
    throw;
  }
  tracked.stored.Note(parameter.list_data());
}

// Waits for each piece: so a failure of one is not covered by the next, and one is in memory at a time.
void StoredTables::PullAll(const Key& key, const std::vector<NDArray>& tables) {
  const autograd::PauseScope pause;
  ForRowPieces(tables.front().shape(), [&](int64_t first, int64_t last) {
    std::vector<RowSparse> pieces;
    for (const NDArray& table : tables) pieces.push_back({IdsOf(first, last), table.SliceRows(first, last)});
    store_.RowSparsePull(key, pieces);
    for (const NDArray& table : tables) table.WaitToRead();
  });
}

}  // namespace sluice::internal

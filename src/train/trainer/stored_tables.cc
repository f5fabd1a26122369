// StoredTables: row-sparse keys of parameters (stored_tables.h).
//
// Every row of a key is set when the key is made, so the store never draws initial values. Arrays that the
// program has written are not fetched over: Changed finds them, and the next step sets the key. The Trainer
// calls Make, Push and Set; layers and SaveParameters fetch, through the parameter.
#include "train/trainer/stored_tables.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "sluice/autograd.h"
#include "sluice/error.h"
#include "tensor/numbers.h"
#include "train/trainer/table_rows.h"

namespace sluice::internal {
namespace {

// Calls each(first, last) for pieces of a table of at most 16 MiB.
template <typename Each>
void ForPieces(const Shape& table, Each each) {
  const int64_t row_bytes = std::max<int64_t>(1, table[1]) * static_cast<int64_t>(sizeof(float));
  const int64_t most = std::max<int64_t>(1, (int64_t{16} << 20) / row_bytes);
  for (int64_t first = 0; first < table[0]; first += most) each(first, std::min(table[0], first + most));
}

NDArray IdsOf(int64_t first, int64_t last) {
  std::vector<int64_t> ids(static_cast<size_t>(last - first));
  std::iota(ids.begin(), ids.end(), first);
  return NumberArray(ids);
}

}  // namespace

std::string StoredTables::Make(TrackedParameter& tracked) {
  nn::Parameter& parameter = *tracked.parameter;
  const Key& key = tracked.keys.front();
  store_.InitRowSparse(key, parameter.shape());
  Follow(tracked);
  if (store_.rank() == 0 && store_.NumUpdates(key) > 0) {
    return StrCat("the servers have updated ", parameter.name(),
                  " already: the store serves another Trainer. Give this network a store of its own "
                  "(KVStore::Create)");
  }
  Set(tracked, parameter.list_data().front());
  return "";
}

void StoredTables::Follow(TrackedParameter& tracked) {
  tables_[tracked.parameter.get()] = &tracked;
  tracked.stored.Note(tracked.parameter->list_data());
}

void StoredTables::Push(const TrackedParameter& tracked, const PushOptions& options) {
  std::vector<RowSparse> gradients;
  for (const Context& context : tracked.parameter->list_ctx()) {
    for (const RowSparse& rows : tracked.parameter->rows().grad(context)) gradients.push_back(rows);
  }
  if (gradients.empty())
    gradients.push_back(
        {NumberArray({}), EmptyRows(tracked.parameter->list_data().front(), 0, cpu_pinned(0))});
  store_.PushRowSparse(tracked.keys.front(), gradients, options);
}

void StoredTables::Set(const TrackedParameter& tracked, const NDArray& written) {
  const autograd::PauseScope pause;
  ForPieces(written.shape(), [&](int64_t first, int64_t last) {
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
  const autograd::PauseScope pause;
  ForPieces(parameter.shape(), [&](int64_t first, int64_t last) {
    std::vector<RowSparse> pieces;
    for (NDArray& table : parameter.list_data())
      pieces.push_back({IdsOf(first, last), table.SliceRows(first, last)});
    store_.RowSparsePull(tracked.keys.front(), pieces);
  });
  tracked.stored.Note(parameter.list_data());
}

}  // namespace sluice::internal

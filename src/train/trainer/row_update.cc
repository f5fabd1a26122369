// RowUpdate: optimiser states of rows, and their updates (row_update.h).
//
// The parameter's arrays have the weights, so that the program may write them between steps: each update
// copies the rows from the first array to the table, updates them there, on the host, and writes them to
// every array. LocalUpdate owns one for each such parameter.
#include "train/trainer/row_update.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kvstore/rows/update_rows.h"
#include "kvstore/table_states.h"
#include "sluice/autograd.h"
#include "tensor/access.h"
#include "train/trainer/table_rows.h"

namespace sluice::internal {

wire::KeySpec TableSpec(const std::string& key, const Shape& shape) {
  return {.name = key, .dtype = DType::kFloat32, .shape = shape, .rows = RowInit()};
}

RowUpdate::RowUpdate(std::string key, const Shape& shape)
    : key_(std::move(key)),
      spec_(TableSpec(key_, shape)),
      table_(std::make_unique<kvstore::RowTable>(spec_)) {}

void RowUpdate::Update(const kvstore::UpdateRule& rule, const std::vector<RowSparse>& gradients, double scale,
                       std::vector<NDArray>* weights) {
  const autograd::PauseScope pause;
  const SummedRows sum = SumOf(gradients, spec_.shape[1]);
  const int64_t num_update = num_updates_ + 1;
  if (sum.ids.empty()) {
    num_updates_ = num_update;
    return;
  }
  const size_t row_bytes = table_->row_bytes();
  NDArray rows = HostArray(TakeRows(weights->front(), sum.ids));
  std::byte* const row = MutableHostBytes(rows).data();
  rows.WaitToRead();
  for (size_t i = 0; i < sum.ids.size(); ++i)
    std::memcpy(table_->Weight(table_->Touch(sum.ids[i])), row + i * row_bytes, row_bytes);

  Buffer frame(kvstore::RowFrame::BytesOf(sum.ids.size(), row_bytes));
  const size_t id_bytes = sum.ids.size() * sizeof(int64_t);
  std::memcpy(frame.data(), sum.ids.data(), id_bytes);
  std::memcpy(frame.data() + id_bytes, HostBytes(sum.rows).data(), sum.ids.size() * row_bytes);
  const kvstore::RowFrame pushed(frame.bytes(), row_bytes);
  const kvstore::UpdateInput input{
      .spec = &spec_, .scale = scale, .round = static_cast<uint64_t>(num_update), .num_update = num_update};
  kvstore::UpdateRows(rule, input, std::span(&pushed, 1), table_.get());
  num_updates_ = num_update;

  for (size_t i = 0; i < sum.ids.size(); ++i)
    std::memcpy(row + i * row_bytes, table_->Weight(table_->Touch(sum.ids[i])), row_bytes);
  for (NDArray& table : *weights) PutRows(rows.AsInContext(table.context()), sum.ids, table);
}

kvstore::KeyStates RowUpdate::States(const Optimizer& optimizer) {
  kvstore::KeyStates states = kvstore::StatesOfTable(optimizer, *table_);
  states.num_updates = static_cast<uint64_t>(num_updates_);
  return states;
}

void RowUpdate::Spread(kvstore::KeyStates* states) const {
  const size_t bytes = table_->state_bytes();
  for (Buffer& slot : states->slots) {
    Buffer all(static_cast<size_t>(spec_.shape[0]) * bytes);
    std::memset(all.data(), 0, all.size());
    for (size_t i = 0; i < states->rows.size(); ++i)
      std::memcpy(all.data() + static_cast<size_t>(states->rows[i]) * bytes, slot.data() + i * bytes, bytes);
    slot = std::move(all);
  }
  states->rows.clear();
}

void RowUpdate::Gather(kvstore::KeyStates* states) const {
  const size_t bytes = table_->state_bytes();
  const std::vector<std::byte> zeros(bytes);
  const auto has_any = [&](int64_t row) {
    return std::ranges::any_of(states->slots, [&](const Buffer& slot) {
      return std::memcmp(slot.data() + static_cast<size_t>(row) * bytes, zeros.data(), bytes) != 0;
    });
  };
  states->rows.clear();
  for (int64_t row = 0; row < spec_.shape[0]; ++row)
    if (has_any(row)) states->rows.push_back(row);
  for (Buffer& slot : states->slots) {
    Buffer some(states->rows.size() * bytes);
    for (size_t i = 0; i < states->rows.size(); ++i)
      std::memcpy(some.data() + i * bytes, slot.data() + static_cast<size_t>(states->rows[i]) * bytes, bytes);
    slot = std::move(some);
  }
}

void RowUpdate::SetStates(const Optimizer& optimizer, const kvstore::KeyStates& states) {
  table_ = std::make_unique<kvstore::RowTable>(spec_);
  kvstore::SetStatesOfTable(optimizer, states, table_.get());
  num_updates_ = static_cast<int64_t>(states.num_updates);
}

}  // namespace sluice::internal

#include "server/receive/set_values.h"

#include <cstring>

#include "kvstore/rows/row_frame.h"

namespace sluice::server {
namespace {

// Writes weights (slot 0) or states of rows.
void WriteRows(kvstore::RowTable& table, uint32_t slot, const Frame& frame) {
  const size_t each = slot == 0 ? table.row_bytes() : table.state_bytes();
  const kvstore::RowFrame rows(frame.bytes(), each);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t row = table.Touch(rows.id(i));
    std::memcpy(slot == 0 ? table.Weight(row) : table.State(slot - 1, row), rows.row(i), each);
  }
}

}  // namespace

bool SetWeight(const ShardKey& key, ShardPart& part, uint64_t version, const Frame& value,
               ShardPart::StoreRequest by) {
  if (version < key.VersionFor(part, 0) || !part.AcceptIfNewer(ShardPart::kWeight, by)) return false;
  std::memcpy(part.weight->Next(), value.data(), value.size());
  part.weight->Publish();
  part.set_version = version;
  ++part.sets;
  return true;
}

void StoreState(ShardPart& part, const wire::StorePart& state, const Frame& frame,
                ShardPart::StoreRequest by) {
  if (!part.AcceptIfNewer(state.slot, by)) return;
  if (state.slot > 0 && part.rows != nullptr) {
    WriteRows(*part.rows, state.slot, frame);
  } else if (state.slot > 0) {
    std::memcpy(part.states.arrays[state.slot - 1]->data(), frame.data(), frame.size());
  }
  part.num_updates = static_cast<int64_t>(state.version);
}

void StoreRows(ShardPart& part, const Frame& frame, ShardPart::StoreRequest by) {
  if (part.AcceptIfNewer(ShardPart::kWeight, by)) WriteRows(*part.rows, 0, frame);
}

}  // namespace sluice::server

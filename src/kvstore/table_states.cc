// States of tables (table_states.h). Stores of one process, and Trainers that update by themselves, call this
// while no update of the table is in progress.
#include "kvstore/table_states.h"

#include <algorithm>
#include <cstring>

namespace sluice::kvstore {

KeyStates StatesOfTable(const Optimizer& optimizer, RowTable& table) {
  table.FitStates(&optimizer);
  KeyStates saved;
  saved.rows.assign(table.ids().begin(), table.ids().end());
  std::ranges::sort(saved.rows);
  for (size_t slot = 0; slot < table.num_states(); ++slot) {
    Buffer& copy = saved.slots.emplace_back(saved.rows.size() * table.state_bytes());
    for (size_t i = 0; i < saved.rows.size(); ++i)
      table.ReadState(slot, saved.rows[i], copy.data() + i * table.state_bytes());
  }
  return saved;
}

void SetStatesOfTable(const Optimizer& optimizer, const KeyStates& loaded, RowTable* table) {
  table->FitStates(&optimizer);
  for (size_t i = 0; i < loaded.rows.size(); ++i) {
    const size_t row = table->Touch(loaded.rows[i]);
    for (size_t slot = 0; slot < table->num_states(); ++slot)
      std::memcpy(table->State(slot, row), loaded.slots[slot].data() + i * table->state_bytes(),
                  table->state_bytes());
  }
}

}  // namespace sluice::kvstore

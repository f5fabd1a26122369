// The optimiser states of a table's rows, as a file of states has them (states_file.h).
#pragma once

#include "kvstore/rows/row_table.h"
#include "kvstore/states_file.h"

namespace sluice::kvstore {

// Returns the states of the rows that have been touched; without the number of updates, which a table does
// not count. Not thread-safe for one table.
KeyStates StatesOfTable(const Optimizer& optimizer, RowTable& table);
void SetStatesOfTable(const Optimizer& optimizer, const KeyStates& loaded, RowTable* table);

}  // namespace sluice::kvstore

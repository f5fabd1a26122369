#pragma once

#include <cstdint>

#include "kvstore/plan/placement.h"

namespace sluice::testing {

// Returns the row that belongs to part 0 among the i-th `parts` rows of a table.
inline int64_t RowOfPartZero(int64_t i, uint32_t parts) {
  const plan::RowPlaces places{.rows = (i + 1) * parts, .row_elements = 1, .parts = parts};
  int64_t row = i * parts;
  while (places.PartOf(row) != 0) ++row;
  return row;
}

}  // namespace sluice::testing

// A table with one row for each kind of optimiser: its name, and the values of fields that a configuration
// does not set.
#pragma once

#include <span>
#include <string_view>

#include "sluice/optimizer.h"

namespace sluice {

struct OptimizerRow {
  OptimizerKind kind;
  std::string_view name;
  bool reads_momentum;
  double learning_rate, momentum, epsilon;  // used for fields that are kUnset in OptimizerConfig
};

std::span<const OptimizerRow> OptimizerRows();  // in the order of the kinds
// Returns null if `kind` is not one of the enumerators, since kinds come from the network too.
const OptimizerRow* FindOptimizerRow(OptimizerKind kind);

}  // namespace sluice

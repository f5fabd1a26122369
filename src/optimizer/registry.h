// One row for each kind of optimiser: its name, who makes it, and what it takes where a configuration says
// nothing.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "sluice/optimizer.h"

namespace sluice {

struct OptimizerRow {
  OptimizerKind kind;
  std::string_view name;
  std::unique_ptr<const Optimizer> (*make)(const OptimizerConfig&);
  bool reads_momentum;
  double learning_rate, momentum, epsilon;  // where OptimizerConfig has none
};

inline constexpr OptimizerKind kLastOptimizerKind = OptimizerKind::kSignum;

std::span<const OptimizerRow> OptimizerRows();  // in the order of the kinds
// Null for a number that is no kind: numbers come from the network.
const OptimizerRow* FindOptimizerRow(OptimizerKind kind);

}  // namespace sluice

// What Fit remembers of an epoch under way.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::train {

struct EpochSums {
  double loss = 0;   // NaN where it has diverged
  double score = 0;  // of the metric: the correct ones, or what else it sums
  int64_t samples = 0;
  int64_t scored = 0;  // what the metric has counted
  std::string metric;  // its name; empty: none

  // Bit by bit: what is recalled is what was known.
  std::string ToText() const;
  // Throws Error(kDataLoss) for what ToText cannot have written.
  static EpochSums Parse(const std::string& text);
};

}  // namespace sluice::train

// What Fit remembers of an epoch under way.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::train {

struct EpochSums {
  double loss = 0;     // NaN where it has diverged
  double correct = 0;  // of `samples`
  int64_t samples = 0;

  // Bit by bit: what is recalled is what was known.
  std::string ToText() const;
  // Throws Error(kDataLoss) for what ToText cannot have written.
  static EpochSums Parse(const std::string& text);
};

}  // namespace sluice::train

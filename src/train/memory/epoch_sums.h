// What Fit remembers of the current epoch, in a checkpoint within it.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::train {

struct EpochSums {
  double loss = 0;      // the sum over samples; NaN when it has diverged
  double score = 0;     // the metric's sum, such as the number of correct samples
  int64_t samples = 0;  // samples that `loss` sums over
  int64_t scored = 0;   // samples that the metric has counted
  std::string metric;   // the metric's name; empty: there is none

  // Writes the sums as hexadecimal digits, so that Parse returns them to the last bit.
  std::string ToText() const;
  // Throws Error(kDataLoss) for a text that ToText cannot have written.
  static EpochSums Parse(const std::string& text);
};

}  // namespace sluice::train

// The 2-norm of several arrays as one vector.
#pragma once

#include <optional>
#include <vector>

#include "sluice/ndarray.h"

namespace sluice::train {

struct GlobalNorm {
  double value = 0;                  // summed in float64
  std::optional<size_t> not_finite;  // the first array whose own sum of squares is not finite
};

// Waits for the arrays, which may lie on several contexts and have any floating types. Throws what their
// operations threw.
GlobalNorm MeasureGlobalNorm(const std::vector<NDArray>& arrays);

}  // namespace sluice::train

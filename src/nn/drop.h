// What layers drop.
#pragma once

#include <string_view>

#include "sluice/ndarray.h"

namespace sluice::nn {

// x, or what dropout leaves of it while training: sluice/nn/dropout.h. `place` tells apart the several
// dropouts of one layer.
NDArray Drop(const NDArray& x, double rate, std::string_view layer, uint64_t place = 0);

// Throws where no rate is, saying so of `what`.
void RequireRate(std::string_view what, double rate);

}  // namespace sluice::nn

// Dropout for layers that have it as an option.
#pragma once

#include <string_view>

#include "sluice/ndarray.h"

namespace sluice::nn {

// Returns x with dropout (sluice/nn/dropout.h) while training, else x itself. `layer` is the layer's name;
// `place` distinguishes several dropouts of one layer.
NDArray Drop(const NDArray& x, double rate, std::string_view layer, uint64_t place = 0);

// Throws Error(kInvalidArgument), whose message begins with `what`, unless 0 <= rate < 1.
void RequireRate(std::string_view what, double rate);

}  // namespace sluice::nn

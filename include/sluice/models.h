// The stock networks of the examples. All take images [batch, 1, 28, 28] (other sizes and channels are
// inferred) and end in ten scores, for SoftmaxCrossEntropyLoss.
#pragma once

#include <string_view>
#include <vector>

#include "sluice/nn.h"

namespace sluice::nn {

// Flatten, dense 128 relu, dense 64 relu, dense 10.
Sequential Mlp();
// Convolution 5x5x20, tanh, max-pool 2x2/2, convolution 5x5x50, tanh, max-pool 2x2/2, dense 500, tanh,
// dense 10.
Sequential Lenet();
// Lenet with average pooling: no ties, so equal jobs stay equal (docs: equivalence).
Sequential LenetAvg();
// Convolution 5x5x6 relu, max-pool 2x2/2, convolution 3x3x16 relu, max-pool 2x2/2, dense 120 relu, dense 84
// relu, dense 10.
Sequential GluonLenet();

// "mlp", "lenet", "lenet_avg", "gluon_lenet"
std::vector<std::string_view> ModelNames();
// Error(kNotFound) with the names there are.
Sequential CreateModel(std::string_view name);

}  // namespace sluice::nn

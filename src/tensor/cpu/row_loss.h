// Losses that compare predictions and labels element by element.
#pragma once

#include "tensor/kernels.h"

namespace sluice::cpu {

// Compute rows [first, last) of Kernels::RowLoss and RowLossBackward.
void RowLosses(const RowLossShape& shape, const float* prediction, const float* label, float* losses,
               int64_t first, int64_t last);
void RowLossesBackward(const RowLossShape& shape, const float* prediction, const float* label,
                       const float* grad, float* grad_prediction, int64_t first, int64_t last);

}  // namespace sluice::cpu

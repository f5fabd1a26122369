// Softmax of rows, and the cross entropy and log-softmax made of it.
#pragma once

#include <cstdint>

namespace sluice::cpu {

// Compute rows [first, last) of the methods of Kernels; labels must be whole numbers in [0, classes).
void SoftmaxCrossEntropyRows(const float* scores, const float* labels, float smoothing, float* probabilities,
                             float* losses, int64_t classes, int64_t first, int64_t last);
void SoftmaxCrossEntropyRowsBackward(const float* probabilities, const float* labels, float smoothing,
                                     const float* grad, float* grad_scores, int64_t classes, int64_t first,
                                     int64_t last);
void LogSoftmaxRows(const float* x, float* out, int64_t columns, int64_t first, int64_t last);
void LogSoftmaxRowsBackward(const float* y, const float* grad, float* grad_x, int64_t columns, int64_t first,
                            int64_t last);

}  // namespace sluice::cpu

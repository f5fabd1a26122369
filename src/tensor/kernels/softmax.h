// The cross entropy of a softmax, and the logarithm of a softmax, of rows.
#pragma once

#include <cstdint>
#include <limits>

namespace sluice {

inline constexpr float kNoLabelIgnored = std::numeric_limits<float>::quiet_NaN();  // equals no label

// losses = -sum_j q_j log p_j, where p = softmax(scores) and q_j = smoothing / classes, plus 1 - smoothing
// for the label; a row whose label is `ignored` has the loss 0 and the gradient 0. Throws
// Error(kInvalidArgument) for another label that is no whole number in [0, classes).
struct SoftmaxCrossEntropyArgs {
  int64_t rows, classes;
  float smoothing;
  float ignored = kNoLabelIgnored;
  const float* scores;   // [rows, classes]
  const float* labels;   // [rows], whole numbers
  float* probabilities;  // [rows, classes]; receives p, for SoftmaxCrossEntropyBackward
  float* losses;         // [rows]
};

struct SoftmaxCrossEntropyBackwardArgs {
  int64_t rows, classes;
  float smoothing;
  float ignored = kNoLabelIgnored;
  const float* probabilities;
  const float* labels;
  const float* grad;
  float* grad_scores;
};

struct LogSoftmaxArgs {
  int64_t rows, columns;
  const float* x;
  float* out;
};

struct LogSoftmaxBackwardArgs {
  int64_t rows, columns;
  const float* y;  // the output of LogSoftmax
  const float* grad;
  float* grad_x;
};

}  // namespace sluice

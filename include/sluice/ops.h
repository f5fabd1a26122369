// Differentiable operations: what the layers of sluice/nn.h are made of, for models written by hand
// (examples/from_scratch.cc).
//
//   autograd::RecordScope record;
//   NDArray hidden = ops::Relu(ops::Dense(x, weight, bias));
//   NDArray loss = ops::SoftmaxCrossEntropy(ops::Dense(hidden, weight2, bias2), labels);
//
// All return at once, compute in float32 and are recorded while the tape runs. What does not fit is
// Error(kInvalidArgument) that names the operation and the shapes; so are arrays of two contexts. Only bias,
// gamma, beta and addend may be no array (NDArray()), elsewhere that is Error(kFailedPrecondition). Operators
// (+ - *) and views are in ndarray.h.
//
// Thread safety: as of arrays and the tape.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/ndarray.h"

namespace sluice::ops {

// Extent, stride and dilation are from 1, padding from 0 (pooling: smaller than the window) to kMost; the
// window must fit the padded image.
struct Window2D {
  static constexpr int64_t kMost = int64_t{1} << 30;  // sums of a few, and products of two, cannot overflow
  int64_t height = 1, width = 1;                      // of convolutions the weight says it
  int64_t stride_height = 1, stride_width = 1;
  int64_t pad_height = 0, pad_width = 0;
  int64_t dilation_height = 1, dilation_width = 1;  // of convolutions
};

// x [n, in] weight [out, in] bias [out] -> x weight^T + bias [n, out]
NDArray Dense(const NDArray& x, const NDArray& weight, const NDArray& bias = {});

// x [n, c, h, w] weight [o, c / groups, kh, kw] bias [o] -> [n, o, h', w']: cross-correlation, as everywhere
// in the field.
NDArray Conv2D(const NDArray& x, const NDArray& weight, const NDArray& bias = {}, const Window2D& window = {},
               int64_t groups = 1);
// The gradient of Conv2D by its input: x [n, c, h, w] weight [c, o / groups, kh, kw] bias [o] ->
// [n, o, out_height, out_width], a size from which Conv2D leads to h x w.
NDArray Conv2DTranspose(const NDArray& x, const NDArray& weight, const NDArray& bias, const Window2D& window,
                        int64_t groups, int64_t out_height, int64_t out_width);

// x [n, c, h, w]. Averages count padding, as PyTorch's default does.
NDArray MaxPool2D(const NDArray& x, const Window2D& window);
NDArray AvgPool2D(const NDArray& x, const Window2D& window);

// Element by element; formulas and sources: sluice/nn/activation.h.
NDArray Relu(const NDArray& x);
NDArray Tanh(const NDArray& x);
NDArray Sigmoid(const NDArray& x);
NDArray LeakyRelu(const NDArray& x, float alpha = 0.01f);  // alpha >= 0
NDArray Elu(const NDArray& x, float alpha = 1);            // alpha >= 0
NDArray Gelu(const NDArray& x);
NDArray Softplus(const NDArray& x);
NDArray Silu(const NDArray& x);

struct BatchNormOptions {
  float epsilon = 1e-5f;
  float momentum = 0.9f;  // of the running statistics: running = momentum running + (1 - momentum) batch
  bool training = false;
  bool relu = false;  // applied to the result, after the addend
};
// x [n, c, ...]; the others [c], gamma and beta may be none (1 and 0). When training the batch's statistics
// normalise and go into the running ones, else the running ones normalise. `addend`, of x's shape or none, is
// added to the result.
NDArray BatchNorm(const NDArray& x, const NDArray& gamma, const NDArray& beta, NDArray& running_mean,
                  NDArray& running_variance, const BatchNormOptions& options, const NDArray& addend = {});
// Over the last axis of x [..., c]; gamma and beta [c] or none.
NDArray LayerNorm(const NDArray& x, const NDArray& gamma, const NDArray& beta, float epsilon = 1e-5f);

// Row i of x [n, ...] is sample first_sample + i; each element is dropped with probability `rate`, in [0, 1),
// as a function of (key, sample, place within the row), and the others are divided by 1 - rate.
NDArray Dropout(const NDArray& x, double rate, uint64_t key, uint64_t first_sample = 0);
// Rows of weight [rows, columns] by ids [...] of float32, int32, int64 or uint8 -> [..., columns]. An id
// outside [0, rows) is an error at the next wait that names it. ids get no gradient.
NDArray Embedding(const NDArray& ids, const NDArray& weight);

NDArray Flatten(const NDArray& x);  // [n, ...] -> [n, rest]
NDArray Reshape(const NDArray& x, const Shape& shape);
// [begin, end) of one axis, in memory of its own: the time step of a sequence [n, steps, ...], say.
NDArray Slice(const NDArray& x, size_t axis, int64_t begin, int64_t end);
// One after the other along `axis`; the other extents are the same.
NDArray Concat(const std::vector<NDArray>& parts, size_t axis);

NDArray Sum(const NDArray& x);          // -> [1]
NDArray Mean(const NDArray& x);         // -> [1]
NDArray SumOfRows(const NDArray& x);    // [n, ...] -> [n]
NDArray MeanOfSteps(const NDArray& x);  // [n, steps, ...] -> [n, ...]

// scores [n, classes], labels [n] (class numbers, float32) -> losses [n]; smoothing, in [0, 1], spreads that
// share of each label over all classes.
NDArray SoftmaxCrossEntropy(const NDArray& scores, const NDArray& labels, float smoothing = 0);
NDArray LogSoftmax(const NDArray& x);  // over the last axis
// prediction and label [n, ...] -> [n], the means over all axes but the first of: (p - l)^2 / 2; |p - l|;
// (p - l)^2 / (2 rho) up to |p - l| = rho and then |p - l| - rho / 2.
NDArray L2(const NDArray& prediction, const NDArray& label);
NDArray L1(const NDArray& prediction, const NDArray& label);
NDArray Huber(const NDArray& prediction, const NDArray& label, float rho = 1);
// The same for -l log sigmoid(s) - (1 - l) log(1 - sigmoid(s)) and l (log(l + 1e-12) - p); labels get no
// gradient.
NDArray SigmoidBinaryCrossEntropy(const NDArray& scores, const NDArray& label);
NDArray KlDivergence(const NDArray& log_probabilities, const NDArray& label);

}  // namespace sluice::ops

// Differentiable operations: float32, recorded when the tape runs. All return at once.
#pragma once

#include <optional>
#include <vector>

#include "sluice/ndarray.h"
#include "tensor/kernels.h"

namespace sluice::ops {

// Extent, stride and dilation are at least 1, padding at least 0 (pooling: smaller than the window), none
// above 2^30; the window must fit the padded image. Else Error(kInvalidArgument) that names the operation and
// both.
struct Window2D {
  int64_t height = 1, width = 1;
  int64_t stride_height = 1, stride_width = 1;
  int64_t pad_height = 0, pad_width = 0;
  int64_t dilation_height = 1, dilation_width = 1;  // of convolutions
};

// x [n, in] weight [out, in] bias [out] or no array -> [n, out]
NDArray Dense(const NDArray& x, const NDArray& weight, const NDArray& bias,
              Arithmetic arithmetic = Arithmetic::kFloat32);
// x [n, c, h, w] weight [o, c / groups, kh, kw] bias [o] or no array -> [n, o, h', w']; the window's extent
// is the weight's. `after`, one that FromOutput, is applied to the result.
NDArray Conv2D(const NDArray& x, const NDArray& weight, const NDArray& bias, const Window2D& window,
               int64_t groups = 1, const std::optional<ActivationShape>& after = std::nullopt,
               Arithmetic arithmetic = Arithmetic::kFloat32);
// The gradient of Conv2D by its input: x [n, c, h, w] weight [c, o / groups, kh, kw] bias [o] or no array ->
// [n, o, out_height, out_width], a size from which Conv2D leads to h x w.
NDArray Conv2DTranspose(const NDArray& x, const NDArray& weight, const NDArray& bias, const Window2D& window,
                        int64_t groups, int64_t out_height, int64_t out_width,
                        Arithmetic arithmetic = Arithmetic::kFloat32);
NDArray MaxPool2D(const NDArray& x, const Window2D& window);
NDArray AvgPool2D(const NDArray& x, const Window2D& window);
NDArray Activation(const ActivationShape& shape, const NDArray& x);  // as the functions below
NDArray Relu(const NDArray& x);
NDArray Tanh(const NDArray& x);
NDArray Sigmoid(const NDArray& x);
NDArray LeakyRelu(const NDArray& x, float alpha);  // alpha >= 0
NDArray Elu(const NDArray& x, float alpha);        // alpha >= 0
NDArray Gelu(const NDArray& x);
NDArray Softplus(const NDArray& x);
NDArray Silu(const NDArray& x);
struct BatchNormOptions {
  float epsilon = 1e-5f;
  float momentum = 0.9f;
  bool training = false;
  bool relu = false;  // applied to the result, after the addend
};
// x [n, c, ...]; the others [c], gamma and beta may be no array (1 and 0). When training the batch's
// statistics normalise and go into the running ones, else the running ones normalise. `addend`, of x's shape
// or no array, is added to the result.
NDArray BatchNorm(const NDArray& x, const NDArray& gamma, const NDArray& beta, NDArray& running_mean,
                  NDArray& running_variance, const BatchNormOptions& options, const NDArray& addend = {});
// Over the last axis of x [..., c]; gamma and beta [c] or no array.
NDArray LayerNorm(const NDArray& x, const NDArray& gamma, const NDArray& beta, float epsilon);
// Row i of x [n, ...] is sample first_sample + i; each element is dropped with probability `rate`, in [0, 1),
// as a function of (key, sample, place within the row).
NDArray Dropout(const NDArray& x, double rate, uint64_t key, uint64_t first_sample);
// Rows of weight [rows, columns] by ids [...] of float32, int32, int64 or uint8 -> [..., columns]. An id
// outside [0, rows) is an error at the next wait that names it. ids get no gradient.
NDArray Embedding(const NDArray& ids, const NDArray& weight);
NDArray MeanOfSteps(const NDArray& x);  // [n, steps, ...] -> [n, ...]
NDArray Flatten(const NDArray& x);      // [n, ...] -> [n, rest]
NDArray Reshape(const NDArray& x, const Shape& shape);
// One after the other along `axis`; the other extents are the same.
NDArray Concat(const std::vector<NDArray>& parts, size_t axis);
// scores [n, classes], labels [n] -> losses [n]; smoothing, in [0, 1], spreads that share of each label over
// all classes
NDArray SoftmaxCrossEntropy(const NDArray& scores, const NDArray& labels, float smoothing = 0);
NDArray LogSoftmax(const NDArray& x);  // over the last axis
// 1/2 (prediction - label)^2, the mean over all axes but the first -> [n]
NDArray L2(const NDArray& prediction, const NDArray& label);
// As L2, the means of: |p - l|; (p - l)^2 / (2 rho) up to |p - l| = rho and then |p - l| - rho / 2;
// -l log sigmoid(s) - (1 - l) log(1 - sigmoid(s)); l (log(l + 1e-12) - p). The last two give labels no
// gradient.
NDArray L1(const NDArray& prediction, const NDArray& label);
NDArray Huber(const NDArray& prediction, const NDArray& label, float rho);
NDArray SigmoidBinaryCrossEntropy(const NDArray& scores, const NDArray& label);
NDArray KlDivergence(const NDArray& log_probabilities, const NDArray& label);
NDArray SumOfRows(const NDArray& x);  // [n, ...] -> [n]
NDArray Sum(const NDArray& x);        // -> [1]
NDArray Mean(const NDArray& x);       // -> [1]
// How a layer multiplies whose weights are kept so.
inline Arithmetic ArithmeticFor(DType weights) {
  return weights == DType::kBFloat16 ? Arithmetic::kBFloat16 : Arithmetic::kFloat32;
}
NDArray InFloat32(const NDArray& x);  // x itself, or x.AsType(kFloat32)

}  // namespace sluice::ops

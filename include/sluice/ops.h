// Differentiable operations: what the layers of sluice/nn.h are made of, for models written by hand
// (examples/from_scratch.cc).
//
//   autograd::RecordScope record;
//   NDArray hidden = ops::Relu(ops::Dense(x, weight, bias));
//   NDArray loss = ops::SoftmaxCrossEntropy(ops::Dense(hidden, weight2, bias2), labels);
//
// All return at once, compute in float32 and are recorded while the tape runs. What does not fit is
// Error(kInvalidArgument) that names the operation and the shapes; so are arrays of two contexts. Only
// biases, gamma, beta, addend, states and lengths may be no array (NDArray()), elsewhere that is
// Error(kFailedPrecondition). Operators (+ - *) and views are in ndarray.h.
//
// Thread safety: as of arrays and the tape.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>

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
NDArray Softsign(const NDArray& x);
NDArray LogSigmoid(const NDArray& x);
NDArray Mish(const NDArray& x);

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
// outside [0, rows) is an error at the next wait that names it. ids get no gradient. `padding`, a row's
// number, stands for nothing: its row counts as zeros, whatever it holds, and gets no gradient.
NDArray Embedding(const NDArray& ids, const NDArray& weight, std::optional<int64_t> padding = std::nullopt);
// The mean over the rows of each sequence of ids [n, steps] -> [n, columns], in double precision; ids that
// are `padding` do not count, and where no other is left the mean is zeros. PyTorch's embedding_bag with mode
// "mean" and its padding_idx.
NDArray EmbeddingBag(const NDArray& ids, const NDArray& weight,
                     std::optional<int64_t> padding = std::nullopt);

// --- Recurrent: one layer in one direction over whole sequences ---
//
// i2h_weight [gates hidden, in], h2h_weight [gates hidden, hidden], biases [gates hidden] or none, the gates
// one under the other. A row's weights are those of PyTorch and Gluon, which load as they are.
struct RecurrentWeights {
  NDArray i2h_weight, h2h_weight, i2h_bias, h2h_bias;
};
// [batch, hidden]; none before the first step: zeros. `cell` of an LSTM only.
struct RecurrentState {
  NDArray hidden, cell;
};
struct RecurrentOptions {
  bool reverse = false;  // from each sequence's last step to its first; outputs stay at their steps
  // [batch] of float32, int32, int64 or uint8, or none: all steps. A sequence ends after so many steps: its
  // outputs beyond are 0, what x holds there (NaN too) changes nothing, its final state is that after its
  // last step, and the reverse direction begins there. 0 leaves the state as it is. One outside [0, steps] is
  // an error at the next wait that names it.
  NDArray lengths = {};
};
struct RecurrentResult {
  NDArray outputs;      // [batch, steps, hidden]: the hidden state after each step
  RecurrentState last;  // after the last step
};
// x [batch, steps, in]; steps at least 1. Everything but lengths has a gradient, by outputs and final state
// alike. With a = W_i2h x_t + b_i2h, b = W_h2h h_(t-1) + b_h2h, and [k] the k-th gate's rows:
//
// Rnn (Elman 1990): h_t = tanh(a + b), or relu.
enum class RnnActivation : uint8_t { kTanh, kRelu };
RecurrentResult Rnn(const NDArray& x, const RecurrentWeights& weights, RnnActivation activation,
                    const RecurrentState& begin = {}, const RecurrentOptions& options = {});
// Lstm (Hochreiter, Schmidhuber 1997; with forget gates: Gers, Schmidhuber, Cummins 2000): i, f, o =
// sigmoid((a + b)[0, 1, 3]), g = tanh((a + b)[2]); c_t = f c_(t-1) + i g, h_t = o tanh(c_t).
RecurrentResult Lstm(const NDArray& x, const RecurrentWeights& weights, const RecurrentState& begin = {},
                     const RecurrentOptions& options = {});
// Gru (Cho et al. 2014, with the reset after the product, as in cuDNN and PyTorch): r, z = sigmoid((a + b)[0,
// 1]), n = tanh(a[2] + r b[2]); h_t = (1 - z) n + z h_(t-1).
RecurrentResult Gru(const NDArray& x, const RecurrentWeights& weights, const RecurrentState& begin = {},
                    const RecurrentOptions& options = {});
// How many steps of each row of ids [n, steps], float32, int32, int64 or uint8, there are up to its last one
// that is not `padding` -> [n] int32: the lengths above. No gradient.
NDArray SequenceLengths(const NDArray& ids, int64_t padding = 0);

NDArray Flatten(const NDArray& x);  // [n, ...] -> [n, rest]
NDArray Reshape(const NDArray& x, const Shape& shape);
// [begin, end) of one axis, in memory of its own: the time step of a sequence [n, steps, ...], say.
NDArray Slice(const NDArray& x, size_t axis, int64_t begin, int64_t end);
// One after the other along `axis`; the other extents are the same.
NDArray Concat(std::span<const NDArray> parts, size_t axis);
inline NDArray Concat(std::initializer_list<NDArray> parts, size_t axis) {
  return Concat(std::span(parts.begin(), parts.size()), axis);
}

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

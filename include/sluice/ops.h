// Differentiable operations, of which the layers of sluice/nn.h are made. Models can also be written with
// them directly (examples/from_scratch.cc).
//
//   autograd::RecordScope record;
//   NDArray hidden = ops::Relu(ops::Dense(x, weight, bias));
//   NDArray loss = ops::SoftmaxCrossEntropy(ops::Dense(hidden, weight2, bias2), labels);
//
// All operations return at once, compute in float32 and are recorded while the tape records. They throw
// Error(kInvalidArgument), which names the operation and the shapes, for arguments that do not fit each other
// and for arrays on two contexts. Biases, gamma, beta, addend, states and lengths may be omitted (NDArray());
// for any other argument NDArray() is Error(kFailedPrecondition). ndarray.h has the operators (+ - *) and the
// views.
//
// Thread safety: that of arrays and of the tape (ndarray.h, autograd.h).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>

#include "sluice/ndarray.h"

namespace sluice::ops {

// A window of a convolution or of pooling. Extents, strides and dilations are 1 to kMost, paddings 0 to
// kMost; in pooling the padding is smaller than the window. The window must fit into the padded image.
struct Window2D {
  static constexpr int64_t kMost = int64_t{1} << 30;  // sums of a few, and products of two, cannot overflow
  int64_t height = 1, width = 1;                      // pooling only; a convolution has those of its weight
  int64_t stride_height = 1, stride_width = 1;
  int64_t pad_height = 0, pad_width = 0;
  int64_t dilation_height = 1, dilation_width = 1;  // convolutions only
};

// x [n, in] weight [out, in] bias [out] -> x weight^T + bias [n, out]
NDArray Dense(const NDArray& x, const NDArray& weight, const NDArray& bias = {});

// x [n, c, h, w] weight [o, c / groups, kh, kw] bias [o] -> [n, o, h', w']. As in all frameworks, the
// operation is a cross-correlation.
NDArray Conv2D(const NDArray& x, const NDArray& weight, const NDArray& bias = {}, const Window2D& window = {},
               int64_t groups = 1);
// The gradient of Conv2D with respect to its input: x [n, c, h, w] weight [c, o / groups, kh, kw] bias [o] ->
// [n, o, out_height, out_width]. Conv2D of an image of that size must give h x w.
NDArray Conv2DTranspose(const NDArray& x, const NDArray& weight, const NDArray& bias, const Window2D& window,
                        int64_t groups, int64_t out_height, int64_t out_width);

// Pooling of x [n, c, h, w]. Averages include the padding, as in PyTorch's default.
NDArray MaxPool2D(const NDArray& x, const Window2D& window);
NDArray AvgPool2D(const NDArray& x, const Window2D& window);

// Activations, element by element. sluice/nn/activation.h has the formulas and their sources.
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
  float momentum = 0.9f;  // for the running statistics: running = momentum running + (1 - momentum) batch
  bool training = false;
  bool relu = false;  // applied to the result, after the addend
};
// Batch normalisation of x [n, c, ...]. The other arrays are [c]; gamma and beta may be omitted (1 and 0). In
// training the statistics of the batch normalise x and update the running ones; otherwise the running
// statistics normalise x. `addend`, of x's shape, is added to the result; it may be omitted.
NDArray BatchNorm(const NDArray& x, const NDArray& gamma, const NDArray& beta, NDArray& running_mean,
                  NDArray& running_variance, const BatchNormOptions& options, const NDArray& addend = {});
// Layer normalisation over the last axis of x [..., c]. gamma and beta are [c] and may be omitted.
NDArray LayerNorm(const NDArray& x, const NDArray& gamma, const NDArray& beta, float epsilon = 1e-5f);

// Sets each element of x [n, ...] to 0 with probability `rate`, in [0, 1), and divides the others by
// 1 - rate. The choice is a function of (key, sample, position within the row); row i is sample
// first_sample + i.
NDArray Dropout(const NDArray& x, double rate, uint64_t key, uint64_t first_sample = 0);
// Returns the rows of weight [rows, columns] for ids [...] of float32, int32, int64 or uint8 ->
// [..., columns]. For an id outside [0, rows) the next wait throws an error, which names the id. ids get no
// gradient. The row number `padding` stands for no word: its row counts as zeros, whatever it holds, and gets
// no gradient.
NDArray Embedding(const NDArray& ids, const NDArray& weight, std::optional<int64_t> padding = std::nullopt);
// Returns the mean of the rows of each sequence of ids [n, steps] -> [n, columns], computed in double
// precision. Ids that are `padding` do not count; a sequence without other ids has a mean of zeros. This is
// PyTorch's embedding_bag with mode "mean" and its padding_idx.
NDArray EmbeddingBag(const NDArray& ids, const NDArray& weight,
                     std::optional<int64_t> padding = std::nullopt);

// --- Recurrent layers: one layer in one direction over whole sequences ---
//
// i2h_weight is [gates hidden, in], h2h_weight [gates hidden, hidden]; biases are [gates hidden] and may be
// omitted. The rows of one gate follow those of another, in the order of PyTorch and Gluon, whose weights
// load unchanged.
struct RecurrentWeights {
  NDArray i2h_weight, h2h_weight, i2h_bias, h2h_bias;
};
// The arrays are [batch, hidden]. An initial state that is omitted is zeros. Only an LSTM has `cell`.
struct RecurrentState {
  NDArray hidden, cell;
};
struct RecurrentOptions {
  bool reverse = false;  // runs from each sequence's last step to its first; outputs stay at their steps
  // The number of steps of each sequence, [batch] of float32, int32, int64 or uint8; if omitted, sequences
  // have all steps. After its last step a sequence has outputs of 0, and the values of x there, even NaN,
  // have no effect. Its final state is that after its last step, where the reverse direction begins. A
  // sequence of length 0 keeps its initial state. For a length outside [0, steps] the next wait throws an
  // error, which names it.
  NDArray lengths = {};
};
struct RecurrentResult {
  NDArray outputs;      // [batch, steps, hidden]: the hidden state after each step
  RecurrentState last;  // after the last step
};
// x is [batch, steps, in], with at least 1 step. All arguments but lengths get gradients, from the outputs
// and from the final state. In the formulas a = W_i2h x_t + b_i2h, b = W_h2h h_(t-1) + b_h2h, and [k] means
// the rows of the k-th gate.
//
// Rnn (Elman 1990): h_t = tanh(a + b), or relu.
enum class RnnActivation : uint8_t { kTanh, kRelu };
RecurrentResult Rnn(const NDArray& x, const RecurrentWeights& weights, RnnActivation activation,
                    const RecurrentState& begin = {}, const RecurrentOptions& options = {});
// Lstm (Hochreiter, Schmidhuber 1997; with forget gates: Gers, Schmidhuber, Cummins 2000):
//   i, f, o = sigmoid((a + b)[0, 1, 3]), g = tanh((a + b)[2]); c_t = f c_(t-1) + i g, h_t = o tanh(c_t)
RecurrentResult Lstm(const NDArray& x, const RecurrentWeights& weights, const RecurrentState& begin = {},
                     const RecurrentOptions& options = {});
// Gru (Cho et al. 2014, with the reset after the product, as in cuDNN and PyTorch):
//   r, z = sigmoid((a + b)[0, 1]), n = tanh(a[2] + r b[2]); h_t = (1 - z) n + z h_(t-1)
RecurrentResult Gru(const NDArray& x, const RecurrentWeights& weights, const RecurrentState& begin = {},
                    const RecurrentOptions& options = {});
// Returns the lengths of sequences, as RecurrentOptions takes them: for each row of ids [n, steps] of
// float32, int32, int64 or uint8 the number of steps up to its last id that is not `padding` -> [n] int32. It
// has no gradient.
NDArray SequenceLengths(const NDArray& ids, int64_t padding = 0);

NDArray Flatten(const NDArray& x);  // [n, ...] -> [n, rest]
NDArray Reshape(const NDArray& x, const Shape& shape);
// Returns a copy of [begin, end) of one axis, for example of one time step of a sequence [n, steps, ...].
NDArray Slice(const NDArray& x, size_t axis, int64_t begin, int64_t end);
// Joins arrays along `axis`; their other extents must be equal.
NDArray Concat(std::span<const NDArray> parts, size_t axis);
inline NDArray Concat(std::initializer_list<NDArray> parts, size_t axis) {
  return Concat(std::span(parts.begin(), parts.size()), axis);
}

NDArray Sum(const NDArray& x);          // -> [1]
NDArray Mean(const NDArray& x);         // -> [1]
NDArray SumOfRows(const NDArray& x);    // [n, ...] -> [n]
NDArray MeanOfSteps(const NDArray& x);  // [n, steps, ...] -> [n, ...]

// scores [n, classes], labels [n] (class numbers, float32) -> losses [n]. `smoothing`, in [0, 1], is the
// share of each label that is spread over all classes. Rows whose label is `ignored_label` have the loss 0,
// and their scores the gradient 0.
NDArray SoftmaxCrossEntropy(const NDArray& scores, const NDArray& labels, float smoothing = 0,
                            std::optional<int64_t> ignored_label = std::nullopt);
NDArray LogSoftmax(const NDArray& x);  // over the last axis
// prediction and label [n, ...] -> [n], the means over all axes but the first. L2 averages (p - l)^2 / 2, L1
// |p - l|, and Huber (p - l)^2 / (2 rho) up to |p - l| = rho and |p - l| - rho / 2 beyond.
NDArray L2(const NDArray& prediction, const NDArray& label);
NDArray L1(const NDArray& prediction, const NDArray& label);
NDArray Huber(const NDArray& prediction, const NDArray& label, float rho = 1);
// Likewise the means of -l log sigmoid(s) - (1 - l) log(1 - sigmoid(s)) and of l (log(l + 1e-12) - p). Labels
// get no gradient.
NDArray SigmoidBinaryCrossEntropy(const NDArray& scores, const NDArray& label);
NDArray KlDivergence(const NDArray& log_probabilities, const NDArray& label);

}  // namespace sluice::ops

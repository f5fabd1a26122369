// Kernels, the operations that a device can compute, and the shapes that describe them. Arrays are float32
// and row-major unless a comment says otherwise, in PyTorch's layouts (images [n, c, h, w], convolution
// weights [o, i, kh, kw], dense weights [out, in]). cpu/ implements the interface with oneDNN; a GPU will be
// a second implementation. Kernels are called on the device's stream only, so an implementation may keep
// caches without locks. Pointers are to memory of the device. In all methods ending in Backward, `grad` is
// the gradient by the result of the method without that ending.
#pragma once

#include <cstdint>
#include <optional>

#include "sluice/dtype.h"

namespace sluice {

// The type that a device may round the factors of matrix products and convolutions to, where it
// multiplies that type faster. Sums are float32 in any case.
enum class Arithmetic : uint8_t { kFloat32, kBFloat16 };

struct WindowShape {
  int64_t height = 1, width = 1;
  int64_t stride_height = 1, stride_width = 1;
  int64_t pad_height = 0, pad_width = 0;
  int64_t dilation_height = 1, dilation_width = 1;
  // The extents with dilation, from the first to the last row and column.
  int64_t full_height() const { return dilation_height * (height - 1) + 1; }
  int64_t full_width() const { return dilation_width * (width - 1) + 1; }
  auto operator<=>(const WindowShape&) const = default;
};

// Planes [batch, channels, size]; size is a plane's height x width.
struct PlanesShape {
  int64_t batch = 0, channels = 0, size = 0;
};

// Element (row, column) is dropped if word column % 4 of Philox 4x32-10 (base/philox.h) is below `threshold`.
// The counter is (column / 4, first_sample + row), each of 64 bits, low word first; the key is `key`.
struct DropoutShape {
  int64_t rows = 0, columns = 0;
  uint64_t key = 0;
  uint64_t first_sample = 0;
  uint32_t threshold = 0;
  float scale = 1;  // factor of the elements that are kept
  // Above 1: x and out lie [rows, columns / channels_last, channels_last] in memory. The mask `kept` lies
  // [rows, columns] in any case.
  int64_t channels_last = 1;
};

// How images lie in memory: as [n, c, h, w], or as [n, h, w, c].
enum class ImageLayout : uint8_t { kRowMajor, kChannelsLast };

struct DenseShape {
  int64_t rows = 0, in = 0, units = 0;
  Arithmetic arithmetic = Arithmetic::kFloat32;
};

struct BatchNormShape {
  int64_t rows = 0, channels = 0;
  float epsilon = 0;
  float momentum = 0;
  bool training = false;  // use the batch's statistics and update the running ones with them
  bool relu = false;      // make negative results 0, after the addend
};

enum class RowLossKind : uint8_t {
  kSquare,      // (p - l)^2 / 2
  kAbsolute,    // |p - l|
  kHuber,       // (p - l)^2 / (2 rho) up to |p - l| = rho, then |p - l| - rho / 2
  kLogistic,    // max(p, 0) - p l + log(1 + exp(-|p|))
  kDivergence,  // l (log(l + 1e-12) - p); 0 where l is 0 and p -infinity
};

struct RowLossShape {
  RowLossKind kind = RowLossKind::kSquare;
  int64_t rows = 0, columns = 0;
  float rho = 1;  // > 0
};

// A lookup of rows of a weight [rows, columns]. Ids are float32 or of an integer type; kernels throw
// Error(kInvalidArgument) for an id that is no whole number in [0, rows).
struct EmbeddingShape {
  DType id_type = DType::kFloat32;
  int64_t rows = 0, columns = 0;
  int64_t padding = -1;  // the id whose row counts as zeros and gets no gradient; -1: none
};

struct ConvShape {
  int64_t batch = 0, in_channels = 0, in_height = 0, in_width = 0, out_channels = 0;
  WindowShape window;
  int64_t groups = 1;  // into which in_channels and out_channels are divided
  Arithmetic arithmetic = Arithmetic::kFloat32;
  int64_t out_height() const {
    return (in_height + 2 * window.pad_height - window.full_height()) / window.stride_height + 1;
  }
  int64_t out_width() const {
    return (in_width + 2 * window.pad_width - window.full_width()) / window.stride_width + 1;
  }
  PlanesShape in_planes() const { return {batch, in_channels, in_height * in_width}; }
  auto operator<=>(const ConvShape&) const = default;
};
using PoolShape = ConvShape;  // out_channels equals in_channels; no dilation, one group

enum class RecurrentKind : uint8_t { kRnnTanh, kRnnRelu, kLstm, kGru };

// One recurrent layer in one direction over whole sequences. sluice/ops.h has
// the formulas and the order of the gates.
struct RecurrentShape {
  RecurrentKind kind = RecurrentKind::kRnnTanh;
  int64_t batch = 0, steps = 0, in = 0, hidden = 0;
  bool reverse = false;  // from each sequence's last step to its first
  DType length_type = DType::kInt32;
  Arithmetic arithmetic = Arithmetic::kFloat32;
  int64_t gates() const { return kind == RecurrentKind::kLstm ? 4 : (kind == RecurrentKind::kGru ? 3 : 1); }
  int64_t width() const { return gates() * hidden; }
  // kept_size: the floats that Recurrent leaves for RecurrentBackward. work_size and backward_work_size:
  // the floats of temporary memory that each of them needs.
  int64_t kept_size() const {
    const bool lstm = kind == RecurrentKind::kLstm, gru = kind == RecurrentKind::kGru;
    return batch * (steps * width() + (steps + 1) * hidden * (lstm ? 2 : 1) + (gru ? steps * hidden : 0));
  }
  int64_t work_size() const {
    return batch * steps * in + (kind == RecurrentKind::kGru ? batch : 1) * width();
  }
  int64_t backward_work_size() const {
    return batch * (steps * in + 2 * hidden + (kind == RecurrentKind::kGru ? steps * width() : 0));
  }
};

// x is [batch, steps, in]; the weights are [width, in] and [width, hidden]; the biases are [width] or null;
// hidden and cell, the states before the first step, are [batch, hidden] or null (zeros); lengths is [batch]
// of shape.length_type, or null (all sequences have all steps).
struct RecurrentInputs {
  const float *x, *i2h_weight, *h2h_weight, *i2h_bias, *h2h_bias, *hidden, *cell;
  const void* lengths;
};
// outputs is [batch, steps, hidden]; hidden and cell, the states after the last
// step, are [batch, hidden]. Only kLstm has cell.
struct RecurrentOutputs {
  float *outputs, *hidden, *cell;
};
// The gradients by the RecurrentOutputs; null stands for zeros.
struct RecurrentOutputGradients {
  const float *outputs, *hidden, *cell;
};
// The gradients by the weights, by the biases, and by the states before the
// first step; null ones are not computed.
struct RecurrentGradients {
  float *i2h_weight, *h2h_weight, *i2h_bias, *h2h_bias, *hidden, *cell;
};

enum class PoolKind : uint8_t { kMax, kAverage };  // averages count padding, as PyTorch's default does
enum class ActivationKind : uint8_t {
  kRelu,
  kTanh,
  kSigmoid,
  kLeakyRelu,
  kElu,
  kGelu,
  kSoftplus,
  kSilu,
  kSoftsign,
  kLogSigmoid,
  kMish
};

struct ActivationShape {
  ActivationKind kind = ActivationKind::kRelu;
  float alpha = 0;  // for kLeakyRelu and kElu; at least 0
  // Whether the derivative is computed from the output y; else it is computed from the input x.
  bool FromOutput() const { return kind <= ActivationKind::kElu; }
  auto operator<=>(const ActivationShape&) const = default;
};

class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual void Copy(const void* from, void* to, size_t bytes) = 0;
  virtual void Fill(DType dtype, void* out, double value, int64_t n) = 0;
  // Converts between floating types.
  virtual void Convert(DType from_type, const void* from, DType to_type, void* to, int64_t n) = 0;

  // out = alpha a + beta b; out may be a or b.
  virtual void Combine(float alpha, const float* a, float beta, const float* b, float* out, int64_t n) = 0;
  virtual void Multiply(const float* a, const float* b, float* out, int64_t n) = 0;
  // out = a / b; out may be a or b. A null pointer stands for the scalar in place of that array.
  virtual void Divide(const float* a, const float* b, float scalar, float* out, int64_t n) = 0;
  // out = scale a + shift.
  virtual void Affine(const float* a, float scale, float shift, float* out, int64_t n) = 0;
  virtual double Sum(const float* a, int64_t n) = 0;

  // out [rows, out] = x [rows, in] * weight^T + bias; bias may be null.
  virtual void Dense(const DenseShape& shape, const float* x, const float* weight, const float* bias,
                     float* out) = 0;
  // Null outputs are not computed.
  virtual void DenseBackward(const DenseShape& shape, const float* x, const float* weight, const float* grad,
                             float* grad_x, float* grad_weight, float* grad_bias) = 0;
  // Copies images in the other layout to `to`, in `to_layout`.
  virtual void Reorder(const PlanesShape& shape, const float* from, ImageLayout to_layout, float* to) = 0;
  // Images are kChannelsLast; weights are [out_channels, in_channels / groups, kh, kw]. `after`, an
  // activation for which FromOutput() is true, is applied to the result.
  virtual void Conv(const ConvShape& shape, const float* x, const float* weight, const float* bias,
                    const std::optional<ActivationShape>& after, float* out) = 0;
  // Null outputs are not computed. x may be null without grad_weight, weight without grad_x.
  virtual void ConvBackward(const ConvShape& shape, const float* x, const float* weight, const float* grad,
                            float* grad_x, float* grad_weight, float* grad_bias) = 0;
  // out[i, j] += values[j].
  virtual void AddToRows(const float* values, float* out, int64_t rows, int64_t columns) = 0;
  // sums[j] = sum over i of a[i, j].
  virtual void SumOfRows(const float* a, float* sums, int64_t rows, int64_t columns) = 0;
  // `where`, for kMax only, holds for each output, in the outputs' layout, the place in its
  // plane of the input that it came from (row * width + column). Of several equal maxima the
  // first is taken; if there is a NaN, the last NaN.
  virtual void Pool(PoolKind kind, ImageLayout layout, const PoolShape& shape, const float* x, float* out,
                    int32_t* where) = 0;
  virtual void PoolBackward(PoolKind kind, ImageLayout layout, const PoolShape& shape, const float* grad,
                            const int32_t* where, float* grad_x) = 0;
  virtual void Activation(const ActivationShape& shape, const float* x, float* out, int64_t n) = 0;
  // `kept` is the output if shape.FromOutput(), else the input.
  virtual void ActivationBackward(const ActivationShape& shape, const float* kept, const float* grad,
                                  float* grad_x, int64_t n) = 0;
  // Copies `count` blocks of `bytes` bytes, whose beginnings lie `from_step` and `to_step` bytes apart.
  virtual void CopyBlocks(const void* from, size_t from_step, void* to, size_t to_step, size_t bytes,
                          int64_t count) = 0;
  // For each channel of x [rows, channels], out = (x - mean) / sqrt(variance + epsilon) gamma + beta,
  // with the statistics of the batch when training, else with the running ones; gamma and beta may be
  // null (1 and 0). `mean` and `inverse` [channels] receive the mean and 1 / sqrt(variance + epsilon)
  // that were used, for BatchNormBackward. Training updates running = momentum running + (1 - momentum)
  // batch's, with the unbiased variance; a batch of one row leaves the running variance as it is.
  // `addend` [rows, channels], if not null, is added to the result.
  virtual void BatchNorm(const BatchNormShape& shape, const float* x, const float* gamma, const float* beta,
                         const float* addend, float* running_mean, float* running_variance, float* out,
                         float* mean, float* inverse) = 0;
  // For a BatchNorm without an addend. Null outputs are not computed.
  virtual void BatchNormBackward(const BatchNormShape& shape, const float* x, const float* gamma,
                                 const float* beta, const float* mean, const float* inverse,
                                 const float* grad, float* grad_x, float* grad_gamma, float* grad_beta) = 0;
  // For each row, out = (x - mean) / sqrt(variance + epsilon) gamma + beta; gamma and beta are [columns] or
  // null. `mean` and `inverse` [rows] are as in BatchNorm.
  virtual void LayerNorm(const float* x, const float* gamma, const float* beta, float epsilon, float* out,
                         float* mean, float* inverse, int64_t rows, int64_t columns) = 0;
  // Null outputs are not computed.
  virtual void LayerNormBackward(const float* x, const float* gamma, const float* mean, const float* inverse,
                                 const float* grad, float* grad_x, float* grad_gamma, float* grad_beta,
                                 int64_t rows, int64_t columns) = 0;
  virtual void Dropout(const DropoutShape& shape, const float* x, float* out, uint8_t* kept) = 0;
  virtual void DropoutBackward(const DropoutShape& shape, const uint8_t* kept, const float* grad,
                               float* grad_x) = 0;
  // Computes probabilities [rows, classes] and losses [rows] = -sum_j q_j log p_j, where q_j = smoothing /
  // classes, plus 1 - smoothing for the label. Labels are whole numbers as floats; throws
  // Error(kInvalidArgument) for one that is no whole number in [0, classes).
  virtual void SoftmaxCrossEntropy(const float* scores, const float* labels, float smoothing,
                                   float* probabilities, float* losses, int64_t rows, int64_t classes) = 0;
  virtual void SoftmaxCrossEntropyBackward(const float* probabilities, const float* labels, float smoothing,
                                           const float* grad, float* grad_scores, int64_t rows,
                                           int64_t classes) = 0;
  virtual void LogSoftmax(const float* x, float* out, int64_t rows, int64_t columns) = 0;
  // y is the output of LogSoftmax.
  virtual void LogSoftmaxBackward(const float* y, const float* grad, float* grad_x, int64_t rows,
                                  int64_t columns) = 0;
  // losses [rows] are the means over the columns of each row.
  virtual void RowLoss(const RowLossShape& shape, const float* prediction, const float* label,
                       float* losses) = 0;
  virtual void RowLossBackward(const RowLossShape& shape, const float* prediction, const float* label,
                               const float* grad, float* grad_prediction) = 0;

  // out [n, columns] is the row of each of the n ids.
  virtual void Embedding(const EmbeddingShape& shape, const void* ids, int64_t n, const float* weight,
                         float* out) = 0;
  virtual void EmbeddingBackward(const EmbeddingShape& shape, const void* ids, int64_t n, const float* grad,
                                 float* grad_weight) = 0;
  // out [n, columns] is the mean of the rows of those of ids [n, steps] that are not
  // padding, and zeros where all are padding.
  virtual void EmbeddingBag(const EmbeddingShape& shape, const void* ids, int64_t n, int64_t steps,
                            const float* weight, float* out) = 0;
  virtual void EmbeddingBagBackward(const EmbeddingShape& shape, const void* ids, int64_t n, int64_t steps,
                                    const float* grad, float* grad_weight) = 0;
  // out [n, columns] is the mean over the steps of x [n, steps, columns].
  virtual void MeanOfSteps(const float* x, float* out, int64_t n, int64_t steps, int64_t columns) = 0;
  virtual void MeanOfStepsBackward(const float* grad, float* grad_x, int64_t n, int64_t steps,
                                   int64_t columns) = 0;

  // Beyond a sequence's length its outputs are 0 and its state does not change. Throws
  // Error(kInvalidArgument) for a length outside [0, steps].
  virtual void Recurrent(const RecurrentShape& shape, const RecurrentInputs& inputs,
                         const RecurrentOutputs& outputs, float* kept, float* work) = 0;
  // The biases in `inputs` are not read. Afterwards `kept` holds the gradients of the gates in place of their
  // values; RecurrentBackwardInput computes grad_x from them.
  virtual void RecurrentBackward(const RecurrentShape& shape, const RecurrentInputs& inputs,
                                 const RecurrentOutputGradients& heads, float* kept, float* work,
                                 const RecurrentGradients& to) = 0;
  virtual void RecurrentBackwardInput(const RecurrentShape& shape, const RecurrentInputs& inputs,
                                      const float* kept, float* work, float* grad_x) = 0;
  // lengths[i] is the number of steps of row i of ids [n, steps] up to its last id that is not
  // `padding`. Ids are float32 or of an integer type.
  virtual void SequenceLengths(DType id_type, const void* ids, int64_t n, int64_t steps, double padding,
                               int32_t* lengths) = 0;
};

}  // namespace sluice

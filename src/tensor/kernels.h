// What a device can compute: float32, row-major, PyTorch's layouts (images [n, c, h, w], convolution weights
// [o, i, kh, kw], dense weights [out, in]). cpu/ implements it with oneDNN; a GPU's twin will stand beside
// it. Called on the device's stream only: an implementation may keep caches without locks. Pointers are
// memory of the device.
#pragma once

#include <cstdint>
#include <optional>

#include "sluice/dtype.h"

namespace sluice {

// What the factors of products (of matrices, of convolutions) may be rounded to, where the device multiplies
// those faster; sums are float32 in any case.
enum class Arithmetic : uint8_t { kFloat32, kBFloat16 };

struct WindowShape {
  int64_t height = 1, width = 1;
  int64_t stride_height = 1, stride_width = 1;
  int64_t pad_height = 0, pad_width = 0;
  int64_t dilation_height = 1, dilation_width = 1;
  // From its first to its last row and column.
  int64_t full_height() const { return dilation_height * (height - 1) + 1; }
  int64_t full_width() const { return dilation_width * (width - 1) + 1; }
  auto operator<=>(const WindowShape&) const = default;
};

// [batch, channels, size] with the plane's height x width as size.
struct PlanesShape {
  int64_t batch = 0, channels = 0, size = 0;
};

// Element (row, column) is dropped when word column % 4 of Philox 4x32-10 (base/philox.h) is below
// `threshold`: at the counter (column / 4, first_sample + row), each of 64 bits, low word first, under `key`.
struct DropoutShape {
  int64_t rows = 0, columns = 0;
  uint64_t key = 0;
  uint64_t first_sample = 0;
  uint32_t threshold = 0;
  float scale = 1;  // of what is kept
  // Above 1: numbers, but not what is kept, lie [rows, columns / channels_last, channels_last] in memory.
  int64_t channels_last = 1;
};

// Of images: [n, c, h, w], or [n, h, w, c] in memory.
enum class ImageLayout : uint8_t { kRowMajor, kChannelsLast };

struct DenseShape {
  int64_t rows = 0, in = 0, units = 0;
  Arithmetic arithmetic = Arithmetic::kFloat32;
};

struct BatchNormShape {
  int64_t rows = 0, channels = 0;
  float epsilon = 0;
  float momentum = 0;
  bool training = false;  // with the batch's statistics, which go into the running ones
  bool relu = false;      // negative results become 0, after the addend
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

// Rows of a weight [rows, columns] by ids of float32 or a whole type; one outside [0, rows) throws.
struct EmbeddingShape {
  DType id_type = DType::kFloat32;
  int64_t rows = 0, columns = 0;
  int64_t padding = -1;  // an id whose row counts as zeros and gets no gradient; -1: none
};

struct ConvShape {
  int64_t batch = 0, in_channels = 0, in_height = 0, in_width = 0, out_channels = 0;
  WindowShape window;
  int64_t groups = 1;  // of channels, in and out
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
using PoolShape = ConvShape;  // out_channels is in_channels; no dilation, one group

enum class RecurrentKind : uint8_t { kRnnTanh, kRnnRelu, kLstm, kGru };

// One layer in one direction over whole sequences; formulas and order of the gates: sluice/ops.h.
struct RecurrentShape {
  RecurrentKind kind = RecurrentKind::kRnnTanh;
  int64_t batch = 0, steps = 0, in = 0, hidden = 0;
  bool reverse = false;  // from each sequence's last step to its first
  DType length_type = DType::kInt32;
  Arithmetic arithmetic = Arithmetic::kFloat32;
  int64_t gates() const { return kind == RecurrentKind::kLstm ? 4 : (kind == RecurrentKind::kGru ? 3 : 1); }
  int64_t width() const { return gates() * hidden; }
  // Floats that forward leaves for backward, and that each works with.
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

// x [batch, steps, in]; weights [width, in] and [width, hidden]; biases [width] or null; the states before
// the first step [batch, hidden] or null (zeros); lengths [batch] of shape.length_type, or null (all steps).
struct RecurrentInputs {
  const float *x, *i2h_weight, *h2h_weight, *i2h_bias, *h2h_bias, *hidden, *cell;
  const void* lengths;
};
// outputs [batch, steps, hidden]; the states after the last step [batch, hidden], cell for kLstm only.
struct RecurrentOutputs {
  float *outputs, *hidden, *cell;
};
struct RecurrentHeads {
  const float *outputs, *hidden, *cell;  // by forward's
};
// By the weights and states that forward began with; null ones are not computed.
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
  float alpha = 0;  // of kLeakyRelu and kElu, at least 0
  // Whether the derivative is taken from the output y; else from the input x.
  bool FromOutput() const { return kind <= ActivationKind::kElu; }
  auto operator<=>(const ActivationShape&) const = default;
};

class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual void Copy(const void* from, void* to, size_t bytes) = 0;
  virtual void Fill(DType dtype, void* out, double value, int64_t n) = 0;
  virtual void Convert(DType from_type, const void* from, DType to_type, void* to,
                       int64_t n) = 0;  // floating types

  // out = alpha a + beta b; out may be a or b.
  virtual void Combine(float alpha, const float* a, float beta, const float* b, float* out, int64_t n) = 0;
  virtual void Multiply(const float* a, const float* b, float* out, int64_t n) = 0;
  // out = a / b; out may be a or b. A null pointer stands for the scalar in place of that array.
  virtual void Divide(const float* a, const float* b, float scalar, float* out, int64_t n) = 0;
  virtual void Affine(const float* a, float scale, float shift, float* out,
                      int64_t n) = 0;  // scale a + shift
  virtual double Sum(const float* a, int64_t n) = 0;

  // out [rows, out] = x [rows, in] * weight^T + bias; bias may be null.
  virtual void Dense(const DenseShape& shape, const float* x, const float* weight, const float* bias,
                     float* out) = 0;
  virtual void DenseBackward(const DenseShape& shape, const float* x, const float* weight, const float* grad,
                             float* grad_x, float* grad_weight,
                             float* grad_bias) = 0;  // null outputs are not computed
  // From the other layout.
  virtual void Reorder(const PlanesShape& shape, const float* from, ImageLayout to_layout, float* to) = 0;
  // Images with their channels last, weights [out_channels, in_channels / groups, kh, kw]. `after`, one whose
  // derivative comes from its output, is applied to the result.
  virtual void Conv(const ConvShape& shape, const float* x, const float* weight, const float* bias,
                    const std::optional<ActivationShape>& after, float* out) = 0;
  virtual void ConvBackward(const ConvShape& shape, const float* x, const float* weight, const float* grad,
                            float* grad_x, float* grad_weight,
                            float* grad_bias) = 0;  // x and weight may be null where no output needs them
  // out[i, j] += values[j]; sums[j] = sum over i of a[i, j].
  virtual void AddToRows(const float* values, float* out, int64_t rows, int64_t columns) = 0;
  virtual void SumOfRows(const float* a, float* sums, int64_t rows, int64_t columns) = 0;
  // `where`: for kMax, which input each output came from (row * width + column), one per output, as the
  // outputs lie; unused otherwise. The first maximum wins, or the last NaN.
  virtual void Pool(PoolKind kind, ImageLayout layout, const PoolShape& shape, const float* x, float* out,
                    int32_t* where) = 0;
  virtual void PoolBackward(PoolKind kind, ImageLayout layout, const PoolShape& shape, const float* grad,
                            const int32_t* where, float* grad_x) = 0;
  virtual void Activation(const ActivationShape& shape, const float* x, float* out, int64_t n) = 0;
  // `kept`: the output or the input, as FromOutput says.
  virtual void ActivationBackward(const ActivationShape& shape, const float* kept, const float* grad,
                                  float* grad_x, int64_t n) = 0;
  // `count` blocks of `bytes`, whose beginnings lie `from_step` and `to_step` bytes apart.
  virtual void CopyBlocks(const void* from, size_t from_step, void* to, size_t to_step, size_t bytes,
                          int64_t count) = 0;
  // By channel of x [rows, channels]: out = (x - mean) / sqrt(variance + epsilon) gamma + beta, of the batch
  // when training, else of the running statistics; gamma and beta may be null (1 and 0). mean and inverse
  // [channels] are what was used, for backward. Training: running = momentum running + (1 - momentum)
  // batch's, the variance unbiased, and untouched by a single value. `addend` [rows, channels], or null, is
  // added to the result.
  virtual void BatchNorm(const BatchNormShape& shape, const float* x, const float* gamma, const float* beta,
                         const float* addend, float* running_mean, float* running_variance, float* out,
                         float* mean, float* inverse) = 0;
  // Of one without an addend.
  virtual void BatchNormBackward(const BatchNormShape& shape, const float* x, const float* gamma,
                                 const float* beta, const float* mean, const float* inverse,
                                 const float* grad, float* grad_x, float* grad_gamma,
                                 float* grad_beta) = 0;  // null outputs are not computed
  // By row: out = (x - mean) / sqrt(variance + epsilon) gamma + beta, gamma and beta [columns] or null.
  virtual void LayerNorm(const float* x, const float* gamma, const float* beta, float epsilon, float* out,
                         float* mean, float* inverse, int64_t rows, int64_t columns) = 0;
  virtual void LayerNormBackward(const float* x, const float* gamma, const float* mean, const float* inverse,
                                 const float* grad, float* grad_x, float* grad_gamma, float* grad_beta,
                                 int64_t rows, int64_t columns) = 0;  // null outputs are not computed
  virtual void Dropout(const DropoutShape& shape, const float* x, float* out, uint8_t* kept) = 0;
  virtual void DropoutBackward(const DropoutShape& shape, const uint8_t* kept, const float* grad,
                               float* grad_x) = 0;
  // probabilities [rows, classes]; losses [rows] = -sum_j q_j log p_j with q_j = smoothing / classes, and
  // 1 - smoothing more for the label. labels are whole numbers as floats; one outside [0, classes) throws.
  virtual void SoftmaxCrossEntropy(const float* scores, const float* labels, float smoothing,
                                   float* probabilities, float* losses, int64_t rows, int64_t classes) = 0;
  virtual void SoftmaxCrossEntropyBackward(const float* probabilities, const float* labels, float smoothing,
                                           const float* grad, float* grad_scores, int64_t rows,
                                           int64_t classes) = 0;
  virtual void LogSoftmax(const float* x, float* out, int64_t rows, int64_t columns) = 0;
  // From the output y.
  virtual void LogSoftmaxBackward(const float* y, const float* grad, float* grad_x, int64_t rows,
                                  int64_t columns) = 0;
  // losses [rows]: the mean over each row's columns.
  virtual void RowLoss(const RowLossShape& shape, const float* prediction, const float* label,
                       float* losses) = 0;
  virtual void RowLossBackward(const RowLossShape& shape, const float* prediction, const float* label,
                               const float* grad, float* grad_prediction) = 0;

  // out [n, columns]: the row of each of the n ids.
  virtual void Embedding(const EmbeddingShape& shape, const void* ids, int64_t n, const float* weight,
                         float* out) = 0;
  virtual void EmbeddingBackward(const EmbeddingShape& shape, const void* ids, int64_t n, const float* grad,
                                 float* grad_weight) = 0;
  // out [n, columns]: the mean over the rows of ids [n, steps] that are not padding; zeros where all are.
  virtual void EmbeddingBag(const EmbeddingShape& shape, const void* ids, int64_t n, int64_t steps,
                            const float* weight, float* out) = 0;
  virtual void EmbeddingBagBackward(const EmbeddingShape& shape, const void* ids, int64_t n, int64_t steps,
                                    const float* grad, float* grad_weight) = 0;
  // out [n, columns]: the mean over `steps` of x [n, steps, columns].
  virtual void MeanOfSteps(const float* x, float* out, int64_t n, int64_t steps, int64_t columns) = 0;
  virtual void MeanOfStepsBackward(const float* grad, float* grad_x, int64_t n, int64_t steps,
                                   int64_t columns) = 0;

  // A length outside [0, steps] throws. Beyond a sequence's length its outputs are 0 and its state stays.
  virtual void Recurrent(const RecurrentShape& shape, const RecurrentInputs& inputs,
                         const RecurrentOutputs& outputs, float* kept, float* work) = 0;
  // `inputs` without biases, and what comes back by forward's results, or null. In place of the gates' values
  // `kept` holds their gradients afterwards, which RecurrentBackwardInput takes.
  virtual void RecurrentBackward(const RecurrentShape& shape, const RecurrentInputs& inputs,
                                 const RecurrentHeads& heads, float* kept, float* work,
                                 const RecurrentGradients& to) = 0;
  virtual void RecurrentBackwardInput(const RecurrentShape& shape, const RecurrentInputs& inputs,
                                      const float* kept, float* work, float* grad_x) = 0;
  // lengths[i]: how many steps of row i of ids [n, steps], float32 or a whole type, there are up to its last
  // one that is not `padding`.
  virtual void SequenceLengths(DType id_type, const void* ids, int64_t n, int64_t steps, double padding,
                               int32_t* lengths) = 0;
};

}  // namespace sluice

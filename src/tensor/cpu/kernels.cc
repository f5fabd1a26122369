// The Kernels of cpu contexts. Each method divides its work among the threads of the context's share
// (ParallelFor) and calls the loops of the other files here, or passes the work to oneDNN, which divides it
// itself. All methods run on the stream's thread, one at a time. Invariant: arguments that may be invalid
// (labels, ids, lengths) are checked before the work is divided, since an exception must not leave a
// parallel loop.
#include "tensor/cpu/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/cpu/activation.h"
#include "tensor/cpu/batch_norm.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/dropout.h"
#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/embedding.h"
#include "tensor/cpu/lanes.h"
#include "tensor/cpu/layer_norm.h"
#include "tensor/cpu/onednn.h"
#include "tensor/cpu/onednn_product.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/pool.h"
#include "tensor/cpu/recurrent.h"
#include "tensor/cpu/reorder.h"
#include "tensor/cpu/row_loss.h"
#include "tensor/cpu/softmax.h"

namespace sluice {
namespace {

// The number of elements below which another thread costs more time than it saves.
constexpr int64_t kGrain = int64_t{32} << 10;

class CpuKernels final : public Kernels {
 public:
  explicit CpuKernels(bool multiplies_bfloat16) : multiplies_bfloat16_(multiplies_bfloat16) {}

  void Copy(const void* from, void* to, size_t bytes) override {
    if (bytes > 0) std::memmove(to, from, bytes);  // views of one array may overlap
  }
  void Fill(DType dtype, void* out, double value, int64_t n) override { cpu::Fill(dtype, out, value, n); }
  void Convert(DType from_type, const void* from, DType to_type, void* to, int64_t n) override {
    ParallelFor(n, kGrain,
                [=](int64_t i, int64_t end) { cpu::Convert(from_type, from, to_type, to, i, end); });
  }
  void Combine(float alpha, const float* a, float beta, const float* b, float* out, int64_t n) override {
    ParallelFor(n, kGrain,
                [=](int64_t i, int64_t end) { cpu::Combine(alpha, a + i, beta, b + i, out + i, end - i); });
  }
  void Multiply(const float* a, const float* b, float* out, int64_t n) override {
    ParallelFor(n, kGrain, [=](int64_t i, int64_t end) { cpu::Multiply(a + i, b + i, out + i, end - i); });
  }
  void Divide(const float* a, const float* b, float scalar, float* out, int64_t n) override {
    const auto from = [](const float* values, int64_t i) { return values == nullptr ? nullptr : values + i; };
    ParallelFor(n, kGrain, [=](int64_t i, int64_t end) {
      cpu::Divide(from(a, i), from(b, i), scalar, out + i, end - i);
    });
  }
  void Affine(const float* a, float scale, float shift, float* out, int64_t n) override {
    ParallelFor(n, kGrain,
                [=](int64_t i, int64_t end) { cpu::Affine(a + i, scale, shift, out + i, end - i); });
  }
  double Sum(const float* a, int64_t n) override { return cpu::Sum(a, n); }

  void Dense(const DenseShape& s, const float* x, const float* weight, const float* bias,
             float* out) override {
    onednn_.Multiply({false, true, s.rows, s.units, s.in, SupportedArithmetic(s.arithmetic), bias != nullptr},
                     x, weight, bias, out);
  }
  void DenseBackward(const DenseShape& s, const float* x, const float* weight, const float* grad,
                     float* grad_x, float* grad_weight, float* grad_bias) override {
    if (grad_weight != nullptr && s.rows == 0)
      std::memset(grad_weight, 0, static_cast<size_t>(s.units * s.in) * sizeof(float));
    if (grad_weight != nullptr && s.rows > 0)
      onednn_.Multiply({true, false, s.units, s.in, s.rows, SupportedArithmetic(s.arithmetic)}, grad, x,
                       nullptr, grad_weight);
    if (grad_bias != nullptr) cpu::SumRows(grad, grad_bias, s.rows, s.units);
    if (grad_x != nullptr && s.rows > 0)
      onednn_.Multiply({false, false, s.rows, s.in, s.units, SupportedArithmetic(s.arithmetic)}, grad, weight,
                       nullptr, grad_x);
  }
  void Conv(const ConvShape& shape, const float* x, const float* weight, const float* bias,
            const std::optional<ActivationShape>& after, float* out) override {
    if (shape.batch == 0) return;
    if (after && LosesNanInOneDnn(*after)) {
      onednn_.Conv(SupportedArithmetic(shape), x, weight, bias, std::nullopt, out);
      return Activation(*after, out, out,
                        shape.batch * shape.out_channels * shape.out_height() * shape.out_width());
    }
    onednn_.Conv(SupportedArithmetic(shape), x, weight, bias, after, out);
  }
  void ConvBackward(const ConvShape& shape, const float* x, const float* weight, const float* grad,
                    float* grad_x, float* grad_weight, float* grad_bias) override {
    if (grad_weight == nullptr && grad_bias != nullptr) {
      cpu::SumRows(grad, grad_bias, shape.batch * shape.out_height() * shape.out_width(), shape.out_channels);
      grad_bias = nullptr;
    }
    if (shape.batch > 0)
      return onednn_.ConvBackward(SupportedArithmetic(shape), x, weight, grad, grad_x, grad_weight,
                                  grad_bias);
    const auto elements = static_cast<size_t>(shape.out_channels * (shape.in_channels / shape.groups) *
                                              shape.window.height * shape.window.width);
    if (grad_weight != nullptr) std::memset(grad_weight, 0, elements * sizeof(float));
    if (grad_bias != nullptr)
      std::memset(grad_bias, 0, static_cast<size_t>(shape.out_channels) * sizeof(float));
  }
  void Reorder(const PlanesShape& s, const float* from, ImageLayout layout, float* to) override {
    ParallelFor(s.batch, Planes(s.channels * s.size),
                [&](int64_t image, int64_t end) { cpu::ReorderImages(s, from, layout, to, image, end); });
  }
  void AddToRows(const float* values, float* out, int64_t rows, int64_t columns) override {
    ParallelFor(rows, Planes(columns), [=](int64_t row, int64_t end) {
      for (; row < end; ++row) cpu::Combine(1, out + row * columns, 1, values, out + row * columns, columns);
    });
  }
  void SumOfRows(const float* a, float* sums, int64_t rows, int64_t columns) override {
    cpu::SumRows(a, sums, rows, columns);
  }
  void Pool(PoolKind kind, ImageLayout layout, const PoolShape& s, const float* x, float* out,
            int32_t* where) override {
    if (layout == ImageLayout::kChannelsLast) {
      return ParallelFor(s.batch, Planes(s.in_planes().size * s.in_channels),
                         [&](int64_t i, int64_t end) { cpu::PoolImages(kind, s, x, out, where, i, end); });
    }
    ParallelFor(s.batch * s.in_channels, Planes(s.in_height * s.in_width),
                [&](int64_t i, int64_t end) { cpu::PoolPlanes(kind, s, x, out, where, i, end); });
  }
  void PoolBackward(PoolKind kind, ImageLayout layout, const PoolShape& s, const float* grad,
                    const int32_t* where, float* grad_x) override {
    if (layout == ImageLayout::kChannelsLast) {
      return ParallelFor(s.batch, Planes(s.in_planes().size * s.in_channels), [&](int64_t i, int64_t end) {
        cpu::PoolImagesBackward(kind, s, grad, where, grad_x, i, end);
      });
    }
    ParallelFor(s.batch * s.in_channels, Planes(s.in_height * s.in_width), [&](int64_t i, int64_t end) {
      cpu::PoolPlanesBackward(kind, s, grad, where, grad_x, i, end);
    });
  }
  void Activation(const ActivationShape& a, const float* x, float* out, int64_t n) override {
    if (n == 0) return;
    if (a.kind == ActivationKind::kTanh) return onednn_.Tanh(x, out, n);
    if (a.kind == ActivationKind::kSigmoid) return onednn_.Sigmoid(x, out, n);
    ParallelFor(n, kGrain, [=](int64_t i, int64_t end) { cpu::Activation(a, x + i, out + i, end - i); });
  }
  void ActivationBackward(const ActivationShape& a, const float* kept, const float* grad, float* grad_x,
                          int64_t n) override {
    ParallelFor(n, kGrain, [=](int64_t i, int64_t end) {
      cpu::ActivationBackward(a, kept + i, grad + i, grad_x + i, end - i);
    });
  }
  void CopyBlocks(const void* from, size_t from_step, void* to, size_t to_step, size_t bytes,
                  int64_t count) override {
    if (bytes == 0) return;
    const auto* source = static_cast<const std::byte*>(from);
    auto* target = static_cast<std::byte*>(to);
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(target + static_cast<size_t>(i) * to_step, source + static_cast<size_t>(i) * from_step,
                  bytes);
  }
  void BatchNorm(const BatchNormShape& s, const float* x, const float* gamma, const float* beta,
                 const float* addend, float* running_mean, float* running_variance, float* out, float* mean,
                 float* inverse) override {
    batch_norm_.Forward(s, x, gamma, beta, addend, running_mean, running_variance, out, mean, inverse);
  }
  void BatchNormBackward(const BatchNormShape& s, const float* x, const float* gamma, const float* beta,
                         const float* mean, const float* inverse, const float* grad, float* grad_x,
                         float* grad_gamma, float* grad_beta) override {
    batch_norm_.Backward(s, x, gamma, beta, mean, inverse, grad, grad_x, grad_gamma, grad_beta);
  }
  void LayerNorm(const float* x, const float* gamma, const float* beta, float epsilon, float* out,
                 float* mean, float* inverse, int64_t rows, int64_t columns) override {
    ParallelFor(rows, Planes(columns), [&](int64_t row, int64_t end) {
      cpu::LayerNormRows(x, gamma, beta, epsilon, out, mean, inverse, columns, row, end);
    });
  }
  void LayerNormBackward(const float* x, const float* gamma, const float* mean, const float* inverse,
                         const float* grad, float* grad_x, float* grad_gamma, float* grad_beta, int64_t rows,
                         int64_t columns) override {
    if (grad_gamma != nullptr || grad_beta != nullptr) {
      ParallelFor(columns, Planes(rows), [&](int64_t column, int64_t end) {
        cpu::LayerNormColumnsBackward(x, mean, inverse, grad, grad_gamma, grad_beta, rows, columns, column,
                                      end);
      });
    }
    if (grad_x == nullptr) return;
    ParallelFor(rows, Planes(columns), [&](int64_t row, int64_t end) {
      cpu::LayerNormRowsBackward(x, gamma, mean, inverse, grad, grad_x, columns, row, end);
    });
  }
  void Dropout(const DropoutShape& s, const float* x, float* out, uint8_t* kept) override {
    ParallelFor(s.rows, Planes(s.columns),
                [&](int64_t row, int64_t end) { cpu::DropoutRows(s, x, out, kept, row, end); });
  }
  void DropoutBackward(const DropoutShape& s, const uint8_t* kept, const float* grad,
                       float* grad_x) override {
    ParallelFor(s.rows, Planes(s.columns),
                [&](int64_t row, int64_t end) { cpu::KeepRows(s, kept, grad, grad_x, row, end); });
  }
  void SoftmaxCrossEntropy(const float* scores, const float* labels, float smoothing, float* probabilities,
                           float* losses, int64_t rows, int64_t classes) override {
    RequireLabels(labels, rows, classes);
    ParallelFor(rows, Planes(classes), [=](int64_t row, int64_t end) {
      cpu::SoftmaxCrossEntropyRows(scores, labels, smoothing, probabilities, losses, classes, row, end);
    });
  }
  void SoftmaxCrossEntropyBackward(const float* probabilities, const float* labels, float smoothing,
                                   const float* grad, float* grad_scores, int64_t rows,
                                   int64_t classes) override {
    RequireLabels(labels, rows, classes);
    ParallelFor(rows, Planes(classes), [=](int64_t row, int64_t end) {
      cpu::SoftmaxCrossEntropyRowsBackward(probabilities, labels, smoothing, grad, grad_scores, classes, row,
                                           end);
    });
  }
  void LogSoftmax(const float* x, float* out, int64_t rows, int64_t columns) override {
    ParallelFor(rows, Planes(columns),
                [=](int64_t row, int64_t end) { cpu::LogSoftmaxRows(x, out, columns, row, end); });
  }
  void LogSoftmaxBackward(const float* y, const float* grad, float* grad_x, int64_t rows,
                          int64_t columns) override {
    ParallelFor(rows, Planes(columns), [=](int64_t row, int64_t end) {
      cpu::LogSoftmaxRowsBackward(y, grad, grad_x, columns, row, end);
    });
  }
  void RowLoss(const RowLossShape& s, const float* prediction, const float* label, float* losses) override {
    ParallelFor(s.rows, Planes(s.columns),
                [&](int64_t row, int64_t end) { cpu::RowLosses(s, prediction, label, losses, row, end); });
  }
  void RowLossBackward(const RowLossShape& s, const float* prediction, const float* label, const float* grad,
                       float* grad_prediction) override {
    ParallelFor(s.rows, Planes(s.columns), [&](int64_t row, int64_t end) {
      cpu::RowLossesBackward(s, prediction, label, grad, grad_prediction, row, end);
    });
  }

  void Embedding(const EmbeddingShape& s, const void* ids, int64_t n, const float* weight,
                 float* out) override {
    cpu::ReadRowNumbers(s, ids, n, &row_numbers_);
    ParallelFor(n, Planes(s.columns),
                [&](int64_t i, int64_t end) { cpu::GatherRows(s, row_numbers_, weight, out, i, end); });
  }
  void EmbeddingBackward(const EmbeddingShape& s, const void* ids, int64_t n, const float* grad,
                         float* grad_weight) override {
    cpu::ReadRowNumbers(s, ids, n, &row_numbers_);
    ForColumns(s, n, [&](int64_t column, int64_t end) {
      cpu::ScatterRows(s, row_numbers_, grad, grad_weight, column, end);
    });
  }
  void EmbeddingBag(const EmbeddingShape& s, const void* ids, int64_t n, int64_t steps, const float* weight,
                    float* out) override {
    ReadBags(s, ids, n, steps);
    ParallelFor(n, Planes(steps * s.columns), [&](int64_t bag, int64_t end) {
      cpu::MeanRows(s, row_numbers_, bag_counts_, weight, out, bag, end);
    });
  }
  void EmbeddingBagBackward(const EmbeddingShape& s, const void* ids, int64_t n, int64_t steps,
                            const float* grad, float* grad_weight) override {
    ReadBags(s, ids, n, steps);
    ForColumns(s, n * steps, [&](int64_t column, int64_t end) {
      cpu::SpreadRows(s, row_numbers_, bag_counts_, grad, grad_weight, column, end);
    });
  }
  void MeanOfSteps(const float* x, float* out, int64_t n, int64_t steps, int64_t columns) override {
    const float share = 1.0f / static_cast<float>(std::max<int64_t>(steps, 1));
    ParallelFor(n, Planes(steps * columns), [=](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        cpu::SumRows(x + i * steps * columns, out + i * columns, steps, columns);
        cpu::Affine(out + i * columns, share, 0, out + i * columns, columns);
      }
    });
  }
  void MeanOfStepsBackward(const float* grad, float* grad_x, int64_t n, int64_t steps,
                           int64_t columns) override {
    const float share = 1.0f / static_cast<float>(std::max<int64_t>(steps, 1));
    ParallelFor(n * steps, Planes(columns), [=](int64_t i, int64_t end) {
      for (; i < end; ++i) cpu::Affine(grad + i / steps * columns, share, 0, grad_x + i * columns, columns);
    });
  }

  void Recurrent(const RecurrentShape& shape, const RecurrentInputs& inputs, const RecurrentOutputs& outputs,
                 float* kept, float* work) override {
    recurrent_.Forward(SupportedArithmetic(shape), inputs, outputs, kept, work);
  }
  void RecurrentBackward(const RecurrentShape& shape, const RecurrentInputs& inputs,
                         const RecurrentOutputGradients& heads, float* kept, float* work,
                         const RecurrentGradients& to) override {
    recurrent_.Backward(SupportedArithmetic(shape), inputs, heads, kept, work, to);
  }
  void RecurrentBackwardInput(const RecurrentShape& shape, const RecurrentInputs& inputs, const float* kept,
                              float* work, float* grad_x) override {
    recurrent_.BackwardInput(SupportedArithmetic(shape), inputs, kept, work, grad_x);
  }
  void SequenceLengths(DType id_type, const void* ids, int64_t n, int64_t steps, double padding,
                       int32_t* lengths) override {
    cpu::SequenceLengths(id_type, ids, n, steps, padding, lengths);
  }

 private:
  void ReadBags(const EmbeddingShape& s, const void* ids, int64_t n, int64_t steps) {
    cpu::ReadRowNumbers(s, ids, n * steps, &row_numbers_);
    bag_counts_.resize(static_cast<size_t>(n));
    cpu::CountIds(s, row_numbers_, steps, &bag_counts_);
  }
  // Calls do_columns(first, last) in parallel for all columns of a gradient to which `n` ids add. The rows
  // are not divided, so every element is summed by one thread, in the order of the ids.
  template <typename Do>
  void ForColumns(const EmbeddingShape& s, int64_t n, Do do_columns) {
    ParallelFor(s.columns, std::max<int64_t>(Planes(s.rows + n), cpu::kLanes), do_columns);
  }

  // oneDNN's relu is a maximum, which turns NaN into 0.
  static bool LosesNanInOneDnn(const ActivationShape& a) {
    return a.kind == ActivationKind::kRelu || (a.kind == ActivationKind::kLeakyRelu && a.alpha == 0);
  }
  Arithmetic SupportedArithmetic(Arithmetic wanted) const {
    return multiplies_bfloat16_ ? wanted : Arithmetic::kFloat32;
  }
  template <typename Shape>
  Shape SupportedArithmetic(Shape shape) const {
    shape.arithmetic = SupportedArithmetic(shape.arithmetic);
    return shape;
  }
  // The number of pieces of `size` elements that are worth a thread.
  static int64_t Planes(int64_t size) { return kGrain / std::max<int64_t>(1, size) + 1; }
  // Throws for an invalid label. It is called before the work is divided: the threads may not throw.
  static void RequireLabels(const float* labels, int64_t rows, int64_t classes) {
    for (int64_t row = 0; row < rows; ++row) {
      const float label = labels[row];
      if (label >= 0 && label < static_cast<float>(classes) && label == std::floor(label)) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("label ", label, " of row ", row, " is no class of [0, ", classes, ")"));
    }
  }

  const bool multiplies_bfloat16_;
  cpu::OneDnn onednn_;
  cpu::BatchNorm batch_norm_;
  cpu::Recurrent recurrent_{onednn_};
  std::vector<int64_t> row_numbers_, bag_counts_;  // of the running call
};

}  // namespace

std::unique_ptr<Kernels> MakeCpuKernels(std::optional<bool> multiplies_bfloat16) {
  if (multiplies_bfloat16 == true && !cpu::OneDnn::MultipliesBFloat16()) {
    throw Error(ErrorCode::kUnavailable,
                "arithmetic in bfloat16 needs a processor with AVX-512; without SLUICE_BFLOAT16_ARITHMETIC, "
                "weights of bfloat16 are multiplied in float32 here");
  }
  return std::make_unique<CpuKernels>(multiplies_bfloat16.value_or(cpu::OneDnn::MultipliesBFloat16Fast()));
}

}  // namespace sluice

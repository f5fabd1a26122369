// Kernels that count their cost before they call the real ones.
//
// Each override of CountedKernels computes floating-point operations and bytes from the shapes alone. The
// cost is kept per thread: a device's stream runs one operation at a time on its thread, and WatchedStream
// (stream_watch.cc) takes the sum after each operation. tools/profile_step.py compares it with the machine's
// limits.
#include "cost.h"

#include <utility>

#include "base/strings.h"

namespace sluice::bench {
namespace {

thread_local Cost current;

constexpr double kFloat = sizeof(float);

void AddFloats(int64_t flops, int64_t floats, const std::string& shape) {
  AddCost(static_cast<double>(flops), kFloat * static_cast<double>(floats), shape);
}

std::string TextOf(const ConvShape& s) {
  return StrCat(s.batch, "x", s.in_channels, "x", s.in_height, "x", s.in_width, " to ", s.out_channels, ", ",
                s.window.height, "x", s.window.width,
                s.window.stride_height > 1 ? StrCat(" by ", s.window.stride_height) : "");
}
std::string TextOf(int64_t rows, int64_t columns) {
  return StrCat(rows, "x", columns);
}
std::string TextOf(const DenseShape& s) {
  return StrCat(TextOf(s.rows, s.in), " to ", s.units);
}

int64_t Inputs(const ConvShape& s) {
  return s.batch * s.in_channels * s.in_height * s.in_width;
}
int64_t Outputs(const ConvShape& s) {
  return s.batch * s.out_channels * s.out_height() * s.out_width();
}
int64_t Weights(const ConvShape& s) {
  return s.out_channels * (s.in_channels / s.groups) * s.window.height * s.window.width;
}
int64_t Products(const ConvShape& s) {
  return 2 * s.batch * s.out_height() * s.out_width() * Weights(s);
}

std::string TextOf(const RecurrentShape& s) {
  return StrCat(TextOf(s.batch, s.steps), "x", s.in, " to ", s.hidden);
}
int64_t Weights(const RecurrentShape& s) {
  return s.width() * (s.in + s.hidden);
}
// Returns the floats of the inputs, of the gates that are kept for backward, and of the outputs,
// for all steps.
int64_t Sequences(const RecurrentShape& s) {
  return s.batch * s.steps * (s.in + s.width() + s.hidden);
}
// Returns the operations of multiplying a matrix of `columns` columns and s.width() rows with every step.
int64_t Products(const RecurrentShape& s, int64_t columns) {
  return 2 * s.batch * s.steps * s.width() * columns;
}

class CountedKernels final : public Kernels {
 public:
  explicit CountedKernels(Kernels& kernels) : k_(kernels) {}

  void Copy(const void* from, void* to, size_t bytes) override {
    AddCost(0, 2.0 * static_cast<double>(bytes), StrCat(bytes, " bytes"));
    k_.Copy(from, to, bytes);
  }
  void Fill(DType dtype, void* out, double value, int64_t n) override {
    AddCost(0, static_cast<double>(n) * static_cast<double>(SizeOf(dtype)), StrCat(n));
    k_.Fill(dtype, out, value, n);
  }
  void Convert(DType from_type, const void* from, DType to_type, void* to, int64_t n) override {
    AddCost(0, static_cast<double>(n) * static_cast<double>(SizeOf(from_type) + SizeOf(to_type)), StrCat(n));
    k_.Convert(from_type, from, to_type, to, n);
  }
  void Combine(float alpha, const float* a, float beta, const float* b, float* out, int64_t n) override {
    AddFloats(3 * n, 3 * n, StrCat(n));
    k_.Combine(alpha, a, beta, b, out, n);
  }
  void Multiply(const float* a, const float* b, float* out, int64_t n) override {
    AddFloats(n, 3 * n, StrCat(n));
    k_.Multiply(a, b, out, n);
  }
  void Divide(const float* a, const float* b, float scalar, float* out, int64_t n) override {
    AddFloats(n, (a == nullptr || b == nullptr ? 2 : 3) * n, StrCat(n));
    k_.Divide(a, b, scalar, out, n);
  }
  void Affine(const float* a, float scale, float shift, float* out, int64_t n) override {
    AddFloats(2 * n, 2 * n, StrCat(n));
    k_.Affine(a, scale, shift, out, n);
  }
  double Sum(const float* a, int64_t n) override {
    AddFloats(n, n, StrCat(n));
    return k_.Sum(a, n);
  }

  void Dense(const DenseShape& s, const float* x, const float* weight, const float* bias,
             float* out) override {
    AddFloats(2 * s.rows * s.in * s.units, s.rows * s.in + s.in * s.units + s.rows * s.units, TextOf(s));
    k_.Dense(s, x, weight, bias, out);
  }
  void DenseBackward(const DenseShape& s, const float* x, const float* weight, const float* grad,
                     float* grad_x, float* grad_weight, float* grad_bias) override {
    for (const float* output : {grad_x, grad_weight}) {
      if (output == nullptr) continue;
      AddFloats(2 * s.rows * s.in * s.units, s.rows * s.in + s.in * s.units + s.rows * s.units, TextOf(s));
    }
    k_.DenseBackward(s, x, weight, grad, grad_x, grad_weight, grad_bias);
  }
  void Reorder(const PlanesShape& s, const float* from, ImageLayout to_layout, float* to) override {
    AddFloats(0, 2 * s.batch * s.channels * s.size, StrCat(s.batch, "x", s.channels, "x", s.size));
    k_.Reorder(s, from, to_layout, to);
  }
  void Conv(const ConvShape& s, const float* x, const float* weight, const float* bias,
            const std::optional<ActivationShape>& after, float* out) override {
    AddFloats(Products(s) + (after ? Outputs(s) : 0), Inputs(s) + Weights(s) + Outputs(s), TextOf(s));
    k_.Conv(s, x, weight, bias, after, out);
  }
  void ConvBackward(const ConvShape& s, const float* x, const float* weight, const float* grad, float* grad_x,
                    float* grad_weight, float* grad_bias) override {
    for (const float* output : {grad_x, grad_weight}) {
      if (output != nullptr) AddFloats(Products(s), Inputs(s) + Weights(s) + Outputs(s), TextOf(s));
    }
    k_.ConvBackward(s, x, weight, grad, grad_x, grad_weight, grad_bias);
  }
  void AddToRows(const float* values, float* out, int64_t rows, int64_t columns) override {
    AddFloats(rows * columns, 2 * rows * columns + columns, TextOf(rows, columns));
    k_.AddToRows(values, out, rows, columns);
  }
  void SumOfRows(const float* a, float* sums, int64_t rows, int64_t columns) override {
    AddFloats(rows * columns, rows * columns + columns, TextOf(rows, columns));
    k_.SumOfRows(a, sums, rows, columns);
  }
  void Pool(PoolKind kind, ImageLayout layout, const PoolShape& s, const float* x, float* out,
            int32_t* where) override {
    AddFloats(Outputs(s) * s.window.height * s.window.width,
              Inputs(s) + Outputs(s) * (kind == PoolKind::kMax ? 2 : 1), TextOf(s));
    k_.Pool(kind, layout, s, x, out, where);
  }
  void PoolBackward(PoolKind kind, ImageLayout layout, const PoolShape& s, const float* grad,
                    const int32_t* where, float* grad_x) override {
    AddFloats(Outputs(s), Inputs(s) + Outputs(s) * (kind == PoolKind::kMax ? 2 : 1), TextOf(s));
    k_.PoolBackward(kind, layout, s, grad, where, grad_x);
  }
  void Activation(const ActivationShape& s, const float* x, float* out, int64_t n) override {
    AddFloats(n, 2 * n, StrCat(n));
    k_.Activation(s, x, out, n);
  }
  void ActivationBackward(const ActivationShape& s, const float* kept, const float* grad, float* grad_x,
                          int64_t n) override {
    AddFloats(2 * n, 3 * n, StrCat(n));
    k_.ActivationBackward(s, kept, grad, grad_x, n);
  }
  void CopyBlocks(const void* from, size_t from_step, void* to, size_t to_step, size_t bytes,
                  int64_t count) override {
    AddCost(0, 2.0 * static_cast<double>(bytes) * static_cast<double>(count),
            StrCat(count, " of ", bytes, " bytes"));
    k_.CopyBlocks(from, from_step, to, to_step, bytes, count);
  }
  void BatchNorm(const BatchNormShape& s, const float* x, const float* gamma, const float* beta,
                 const float* addend, float* running_mean, float* running_variance, float* out, float* mean,
                 float* inverse) override {
    const int64_t n = s.rows * s.channels;
    AddFloats((s.training ? 5 : 2) * n, (addend != nullptr ? 3 : 2) * n, TextOf(s.rows, s.channels));
    k_.BatchNorm(s, x, gamma, beta, addend, running_mean, running_variance, out, mean, inverse);
  }
  void BatchNormBackward(const BatchNormShape& s, const float* x, const float* gamma, const float* beta,
                         const float* mean, const float* inverse, const float* grad, float* grad_x,
                         float* grad_gamma, float* grad_beta) override {
    const int64_t n = s.rows * s.channels;
    AddFloats(8 * n, (grad_x != nullptr ? 3 : 2) * n, TextOf(s.rows, s.channels));
    k_.BatchNormBackward(s, x, gamma, beta, mean, inverse, grad, grad_x, grad_gamma, grad_beta);
  }
  void LayerNorm(const float* x, const float* gamma, const float* beta, float epsilon, float* out,
                 float* mean, float* inverse, int64_t rows, int64_t columns) override {
    AddFloats(5 * rows * columns, 2 * rows * columns, TextOf(rows, columns));
    k_.LayerNorm(x, gamma, beta, epsilon, out, mean, inverse, rows, columns);
  }
  void LayerNormBackward(const float* x, const float* gamma, const float* mean, const float* inverse,
                         const float* grad, float* grad_x, float* grad_gamma, float* grad_beta, int64_t rows,
                         int64_t columns) override {
    AddFloats(8 * rows * columns, 3 * rows * columns, TextOf(rows, columns));
    k_.LayerNormBackward(x, gamma, mean, inverse, grad, grad_x, grad_gamma, grad_beta, rows, columns);
  }
  void Dropout(const DropoutShape& s, const float* x, float* out, uint8_t* kept) override {
    const int64_t n = s.rows * s.columns;
    AddCost(static_cast<double>(n), (2 * kFloat + 1) * static_cast<double>(n), TextOf(s.rows, s.columns));
    k_.Dropout(s, x, out, kept);
  }
  void DropoutBackward(const DropoutShape& s, const uint8_t* kept, const float* grad,
                       float* grad_x) override {
    const int64_t n = s.rows * s.columns;
    AddCost(static_cast<double>(n), (2 * kFloat + 1) * static_cast<double>(n), TextOf(s.rows, s.columns));
    k_.DropoutBackward(s, kept, grad, grad_x);
  }
  void SoftmaxCrossEntropy(const float* scores, const float* labels, float smoothing, float* probabilities,
                           float* losses, int64_t rows, int64_t classes) override {
    AddFloats(4 * rows * classes, 2 * rows * classes + 2 * rows, TextOf(rows, classes));
    k_.SoftmaxCrossEntropy(scores, labels, smoothing, probabilities, losses, rows, classes);
  }
  void SoftmaxCrossEntropyBackward(const float* probabilities, const float* labels, float smoothing,
                                   const float* grad, float* grad_scores, int64_t rows,
                                   int64_t classes) override {
    AddFloats(2 * rows * classes, 2 * rows * classes + 2 * rows, TextOf(rows, classes));
    k_.SoftmaxCrossEntropyBackward(probabilities, labels, smoothing, grad, grad_scores, rows, classes);
  }
  void LogSoftmax(const float* x, float* out, int64_t rows, int64_t columns) override {
    AddFloats(4 * rows * columns, 2 * rows * columns, TextOf(rows, columns));
    k_.LogSoftmax(x, out, rows, columns);
  }
  void LogSoftmaxBackward(const float* y, const float* grad, float* grad_x, int64_t rows,
                          int64_t columns) override {
    AddFloats(4 * rows * columns, 3 * rows * columns, TextOf(rows, columns));
    k_.LogSoftmaxBackward(y, grad, grad_x, rows, columns);
  }
  void RowLoss(const RowLossShape& s, const float* prediction, const float* label, float* losses) override {
    AddFloats(3 * s.rows * s.columns, 2 * s.rows * s.columns + s.rows, TextOf(s.rows, s.columns));
    k_.RowLoss(s, prediction, label, losses);
  }
  void RowLossBackward(const RowLossShape& s, const float* prediction, const float* label, const float* grad,
                       float* grad_prediction) override {
    AddFloats(3 * s.rows * s.columns, 3 * s.rows * s.columns + s.rows, TextOf(s.rows, s.columns));
    k_.RowLossBackward(s, prediction, label, grad, grad_prediction);
  }
  void Embedding(const EmbeddingShape& s, const void* ids, int64_t n, const float* weight,
                 float* out) override {
    AddFloats(0, 2 * n * s.columns, StrCat(n, " of ", TextOf(s.rows, s.columns)));
    k_.Embedding(s, ids, n, weight, out);
  }
  void EmbeddingBackward(const EmbeddingShape& s, const void* ids, int64_t n, const float* grad,
                         float* grad_weight) override {
    AddFloats(n * s.columns, (n + s.rows) * s.columns, StrCat(n, " of ", TextOf(s.rows, s.columns)));
    k_.EmbeddingBackward(s, ids, n, grad, grad_weight);
  }
  void EmbeddingBag(const EmbeddingShape& s, const void* ids, int64_t n, int64_t steps, const float* weight,
                    float* out) override {
    AddFloats(n * steps * s.columns, n * (steps + 1) * s.columns,
              StrCat(n, "x", steps, " of ", TextOf(s.rows, s.columns)));
    k_.EmbeddingBag(s, ids, n, steps, weight, out);
  }
  void EmbeddingBagBackward(const EmbeddingShape& s, const void* ids, int64_t n, int64_t steps,
                            const float* grad, float* grad_weight) override {
    AddFloats(2 * n * steps * s.columns, (n + s.rows) * s.columns,
              StrCat(n, "x", steps, " of ", TextOf(s.rows, s.columns)));
    k_.EmbeddingBagBackward(s, ids, n, steps, grad, grad_weight);
  }
  void MeanOfSteps(const float* x, float* out, int64_t n, int64_t steps, int64_t columns) override {
    AddFloats(n * steps * columns, n * (steps + 1) * columns, StrCat(n, "x", TextOf(steps, columns)));
    k_.MeanOfSteps(x, out, n, steps, columns);
  }
  void MeanOfStepsBackward(const float* grad, float* grad_x, int64_t n, int64_t steps,
                           int64_t columns) override {
    AddFloats(n * steps * columns, n * (steps + 1) * columns, StrCat(n, "x", TextOf(steps, columns)));
    k_.MeanOfStepsBackward(grad, grad_x, n, steps, columns);
  }

  void Recurrent(const RecurrentShape& s, const RecurrentInputs& inputs, const RecurrentOutputs& outputs,
                 float* kept, float* work) override {
    AddFloats(Products(s, s.in) + Products(s, s.hidden), Sequences(s) + Weights(s), TextOf(s));
    k_.Recurrent(s, inputs, outputs, kept, work);
  }
  // Counts the gradients of the states, and of each weight whose gradient is asked for.
  void RecurrentBackward(const RecurrentShape& s, const RecurrentInputs& inputs,
                         const RecurrentOutputGradients& heads, float* kept, float* work,
                         const RecurrentGradients& to) override {
    AddFloats(Products(s, s.hidden), Sequences(s) + s.width() * s.hidden, TextOf(s));
    if (to.i2h_weight != nullptr) AddFloats(Products(s, s.in), s.width() * s.in, TextOf(s));
    if (to.h2h_weight != nullptr) AddFloats(Products(s, s.hidden), s.width() * s.hidden, TextOf(s));
    k_.RecurrentBackward(s, inputs, heads, kept, work, to);
  }
  void RecurrentBackwardInput(const RecurrentShape& s, const RecurrentInputs& inputs, const float* kept,
                              float* work, float* grad_x) override {
    AddFloats(Products(s, s.in), s.batch * s.steps * (s.in + s.width()) + s.width() * s.in, TextOf(s));
    k_.RecurrentBackwardInput(s, inputs, kept, work, grad_x);
  }
  void SequenceLengths(DType id_type, const void* ids, int64_t n, int64_t steps, double padding,
                       int32_t* lengths) override {
    AddCost(0, static_cast<double>(n * steps) * static_cast<double>(SizeOf(id_type)), TextOf(n, steps));
    k_.SequenceLengths(id_type, ids, n, steps, padding, lengths);
  }

 private:
  Kernels& k_;
};

}  // namespace

void AddCost(double flops, double bytes, const std::string& shape) {
  current.flops += flops;
  current.bytes += bytes;
  if (current.shape.empty()) current.shape = shape;
}

Cost TakeCost() {
  return std::exchange(current, Cost());
}

std::unique_ptr<Kernels> CountCosts(Kernels& kernels) {
  return std::make_unique<CountedKernels>(kernels);
}

}  // namespace sluice::bench

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
std::string TextOf(const EmbeddingShape& s) {
  return TextOf(s.rows, s.columns);
}

void AddProduct(const DenseShape& s) {
  AddFloats(2 * s.rows * s.in * s.units, s.rows * s.in + s.in * s.units + s.rows * s.units,
            StrCat(TextOf(s.rows, s.in), " to ", s.units));
}

void AddDropout(const DropoutShape& s) {
  const auto n = static_cast<double>(s.rows * s.columns);
  AddCost(n, (2 * kFloat + 1) * n, TextOf(s.rows, s.columns));
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

  void Copy(const CopyArgs& a) override {
    AddCost(0, 2.0 * static_cast<double>(a.bytes), StrCat(a.bytes, " bytes"));
    k_.Copy(a);
  }
  void CopyAll(const CopyAllArgs& a) override {
    size_t bytes = 0;
    for (const CopyArgs& copy : a.copies) bytes += copy.bytes;
    AddCost(0, 2.0 * static_cast<double>(bytes), StrCat(a.copies.size(), " arrays of ", bytes, " bytes"));
    k_.CopyAll(a);
  }
  void CopyBlocks(const CopyBlocksArgs& a) override {
    AddCost(0, 2.0 * static_cast<double>(a.bytes) * static_cast<double>(a.count),
            StrCat(a.count, " of ", a.bytes, " bytes"));
    k_.CopyBlocks(a);
  }
  void Fill(const FillArgs& a) override {
    AddCost(0, static_cast<double>(a.n) * static_cast<double>(SizeOf(a.dtype)), StrCat(a.n));
    k_.Fill(a);
  }
  void Convert(const ConvertArgs& a) override {
    AddCost(0, static_cast<double>(a.n) * static_cast<double>(SizeOf(a.from_type) + SizeOf(a.to_type)),
            StrCat(a.n));
    k_.Convert(a);
  }
  void Reorder(const ReorderArgs& a) override {
    const PlanesShape& s = a.shape;
    AddFloats(0, 2 * s.batch * s.channels * s.size, StrCat(s.batch, "x", s.channels, "x", s.size));
    k_.Reorder(a);
  }

  void Combine(const CombineArgs& a) override {
    AddFloats(3 * a.n, 3 * a.n, StrCat(a.n));
    k_.Combine(a);
  }
  void Multiply(const MultiplyArgs& a) override {
    AddFloats(a.n, 3 * a.n, StrCat(a.n));
    k_.Multiply(a);
  }
  void Divide(const DivideArgs& a) override {
    AddFloats(a.n, (a.a == nullptr || a.b == nullptr ? 2 : 3) * a.n, StrCat(a.n));
    k_.Divide(a);
  }
  void Affine(const AffineArgs& a) override {
    AddFloats(2 * a.n, 2 * a.n, StrCat(a.n));
    k_.Affine(a);
  }

  void Sum(const SumArgs& a) override {
    AddFloats(a.rows * a.columns, a.rows * a.columns, TextOf(a.rows, a.columns));
    k_.Sum(a);
  }
  void SumOfRows(const SumOfRowsArgs& a) override {
    AddFloats(a.rows * a.columns, a.rows * a.columns + a.columns, TextOf(a.rows, a.columns));
    k_.SumOfRows(a);
  }
  void AddToRows(const AddToRowsArgs& a) override {
    AddFloats(a.rows * a.columns, 2 * a.rows * a.columns + a.columns, TextOf(a.rows, a.columns));
    k_.AddToRows(a);
  }
  void FillRows(const FillRowsArgs& a) override {
    AddFloats(0, a.rows * (a.columns + 1), TextOf(a.rows, a.columns));
    k_.FillRows(a);
  }
  void MeanOfSteps(const MeanOfStepsArgs& a) override {
    AddFloats(a.n * a.steps * a.columns, a.n * (a.steps + 1) * a.columns,
              StrCat(a.n, "x", TextOf(a.steps, a.columns)));
    k_.MeanOfSteps(a);
  }
  void MeanOfStepsBackward(const MeanOfStepsBackwardArgs& a) override {
    AddFloats(a.n * a.steps * a.columns, a.n * (a.steps + 1) * a.columns,
              StrCat(a.n, "x", TextOf(a.steps, a.columns)));
    k_.MeanOfStepsBackward(a);
  }

  void AddUp(const AddUpArgs& a) override {
    const auto terms = static_cast<int64_t>(a.arrays.size());
    AddCost(static_cast<double>((terms - 1) * a.n),
            static_cast<double>((terms + 1) * a.n) * static_cast<double>(SizeOf(a.dtype)),
            StrCat(terms, " of ", a.n));
    k_.AddUp(a);
  }
  void SumOfSquares(const SumOfSquaresArgs& a) override {
    AddCost(2 * static_cast<double>(a.n), static_cast<double>(a.n) * static_cast<double>(SizeOf(a.dtype)),
            StrCat(a.n));
    k_.SumOfSquares(a);
  }
  void Scale(const ScaleArgs& a) override {
    AddCost(static_cast<double>(a.n), 2 * static_cast<double>(a.n) * static_cast<double>(SizeOf(a.dtype)),
            StrCat(a.n));
    k_.Scale(a);
  }

  void Dense(const DenseArgs& a) override {
    AddProduct(a.shape);
    k_.Dense(a);
  }
  void DenseBackward(const DenseBackwardArgs& a) override {
    for (const float* output : {a.grad_x, a.grad_weight}) {
      if (output != nullptr) AddProduct(a.shape);
    }
    k_.DenseBackward(a);
  }
  void Convolution(const ConvolutionArgs& a) override {
    const ConvShape& s = a.shape;
    AddFloats(Products(s) + (a.after ? Outputs(s) : 0), Inputs(s) + Weights(s) + Outputs(s), TextOf(s));
    k_.Convolution(a);
  }
  void ConvolutionBackward(const ConvolutionBackwardArgs& a) override {
    const ConvShape& s = a.shape;
    for (const float* output : {a.grad_x, a.grad_weight}) {
      if (output != nullptr) AddFloats(Products(s), Inputs(s) + Weights(s) + Outputs(s), TextOf(s));
    }
    k_.ConvolutionBackward(a);
  }
  void Pool(const PoolArgs& a) override {
    const PoolShape& s = a.shape;
    AddFloats(Outputs(s) * s.window.height * s.window.width,
              Inputs(s) + Outputs(s) * (a.kind == PoolKind::kMax ? 2 : 1), TextOf(s));
    k_.Pool(a);
  }
  void PoolBackward(const PoolBackwardArgs& a) override {
    const PoolShape& s = a.shape;
    AddFloats(Outputs(s), Inputs(s) + Outputs(s) * (a.kind == PoolKind::kMax ? 2 : 1), TextOf(s));
    k_.PoolBackward(a);
  }
  void Activation(const ActivationArgs& a) override {
    AddFloats(a.n, 2 * a.n, StrCat(a.n));
    k_.Activation(a);
  }
  void ActivationBackward(const ActivationBackwardArgs& a) override {
    AddFloats(2 * a.n, 3 * a.n, StrCat(a.n));
    k_.ActivationBackward(a);
  }

  void BatchNorm(const BatchNormArgs& a) override {
    const BatchNormShape& s = a.shape;
    const int64_t n = s.rows * s.channels;
    AddFloats((s.training ? 5 : 2) * n, (a.addend != nullptr ? 3 : 2) * n, TextOf(s.rows, s.channels));
    k_.BatchNorm(a);
  }
  void BatchNormBackward(const BatchNormBackwardArgs& a) override {
    const BatchNormShape& s = a.shape;
    const int64_t n = s.rows * s.channels;
    AddFloats(8 * n, (a.grad_x != nullptr ? 3 : 2) * n, TextOf(s.rows, s.channels));
    k_.BatchNormBackward(a);
  }
  void LayerNorm(const LayerNormArgs& a) override {
    AddFloats(5 * a.rows * a.columns, 2 * a.rows * a.columns, TextOf(a.rows, a.columns));
    k_.LayerNorm(a);
  }
  void LayerNormBackward(const LayerNormBackwardArgs& a) override {
    AddFloats(8 * a.rows * a.columns, 3 * a.rows * a.columns, TextOf(a.rows, a.columns));
    k_.LayerNormBackward(a);
  }
  void Dropout(const DropoutArgs& a) override {
    AddDropout(a.shape);
    k_.Dropout(a);
  }
  void DropoutBackward(const DropoutBackwardArgs& a) override {
    AddDropout(a.shape);
    k_.DropoutBackward(a);
  }

  void SoftmaxCrossEntropy(const SoftmaxCrossEntropyArgs& a) override {
    AddFloats(4 * a.rows * a.classes, 2 * a.rows * a.classes + 2 * a.rows, TextOf(a.rows, a.classes));
    k_.SoftmaxCrossEntropy(a);
  }
  void SoftmaxCrossEntropyBackward(const SoftmaxCrossEntropyBackwardArgs& a) override {
    AddFloats(2 * a.rows * a.classes, 2 * a.rows * a.classes + 2 * a.rows, TextOf(a.rows, a.classes));
    k_.SoftmaxCrossEntropyBackward(a);
  }
  void LogSoftmax(const LogSoftmaxArgs& a) override {
    AddFloats(4 * a.rows * a.columns, 2 * a.rows * a.columns, TextOf(a.rows, a.columns));
    k_.LogSoftmax(a);
  }
  void LogSoftmaxBackward(const LogSoftmaxBackwardArgs& a) override {
    AddFloats(4 * a.rows * a.columns, 3 * a.rows * a.columns, TextOf(a.rows, a.columns));
    k_.LogSoftmaxBackward(a);
  }
  void RowLoss(const RowLossArgs& a) override {
    const RowLossShape& s = a.shape;
    AddFloats(3 * s.rows * s.columns, 2 * s.rows * s.columns + s.rows, TextOf(s.rows, s.columns));
    k_.RowLoss(a);
  }
  void RowLossBackward(const RowLossBackwardArgs& a) override {
    const RowLossShape& s = a.shape;
    AddFloats(3 * s.rows * s.columns, 3 * s.rows * s.columns + s.rows, TextOf(s.rows, s.columns));
    k_.RowLossBackward(a);
  }

  void Embedding(const EmbeddingArgs& a) override {
    AddFloats(0, 2 * a.n * a.shape.columns, StrCat(a.n, " of ", TextOf(a.shape)));
    k_.Embedding(a);
  }
  void EmbeddingBackward(const EmbeddingBackwardArgs& a) override {
    AddFloats(a.n * a.shape.columns, (a.n + a.shape.rows) * a.shape.columns,
              StrCat(a.n, " of ", TextOf(a.shape)));
    k_.EmbeddingBackward(a);
  }
  void EmbeddingBag(const EmbeddingBagArgs& a) override {
    AddFloats(a.n * a.steps * a.shape.columns, a.n * (a.steps + 1) * a.shape.columns,
              StrCat(TextOf(a.n, a.steps), " of ", TextOf(a.shape)));
    k_.EmbeddingBag(a);
  }
  void EmbeddingBagBackward(const EmbeddingBagBackwardArgs& a) override {
    AddFloats(2 * a.n * a.steps * a.shape.columns, (a.n + a.shape.rows) * a.shape.columns,
              StrCat(TextOf(a.n, a.steps), " of ", TextOf(a.shape)));
    k_.EmbeddingBagBackward(a);
  }

  void Recurrent(const RecurrentArgs& a) override {
    const RecurrentShape& s = a.shape;
    AddFloats(Products(s, s.in) + Products(s, s.hidden), Sequences(s) + Weights(s), TextOf(s));
    k_.Recurrent(a);
  }
  // Counts the gradients of the states, and of each weight whose gradient is asked for.
  void RecurrentBackward(const RecurrentBackwardArgs& a) override {
    const RecurrentShape& s = a.shape;
    AddFloats(Products(s, s.hidden), Sequences(s) + s.width() * s.hidden, TextOf(s));
    if (a.to.i2h_weight != nullptr) AddFloats(Products(s, s.in), s.width() * s.in, TextOf(s));
    if (a.to.h2h_weight != nullptr) AddFloats(Products(s, s.hidden), s.width() * s.hidden, TextOf(s));
    k_.RecurrentBackward(a);
  }
  void RecurrentBackwardInput(const RecurrentBackwardInputArgs& a) override {
    const RecurrentShape& s = a.shape;
    AddFloats(Products(s, s.in), s.batch * s.steps * (s.in + s.width()) + s.width() * s.in, TextOf(s));
    k_.RecurrentBackwardInput(a);
  }
  void SequenceLengths(const SequenceLengthsArgs& a) override {
    AddCost(0, static_cast<double>(a.n * a.steps) * static_cast<double>(SizeOf(a.id_type)),
            TextOf(a.n, a.steps));
    k_.SequenceLengths(a);
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

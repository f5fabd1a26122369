// CpuKernels, the Kernels of cpu contexts: oneDNN's where it has suitable ones, else loops of this folder.
// Each family's methods are in the file of its name, as kernels/ has a header for each. A method divides
// its work among the threads of the context's share (ParallelFor) or passes it to oneDNN, which divides it
// itself. All methods run on the stream's thread, one at a time. Invariant: arguments that may be invalid
// (labels, ids, lengths) are checked before the work is divided, since an exception must not leave a
// parallel loop.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/cpu/onednn.h"
#include "tensor/kernels.h"

namespace sluice::cpu {

class CpuKernels final : public Kernels {
 public:
  // Throws as MakeCpuKernels does.
  explicit CpuKernels(std::optional<bool> multiplies_bfloat16);

  // copy.cc, reorder.cc
  void Copy(const CopyArgs& args) override;
  void CopyAll(const CopyAllArgs& args) override;
  void CopyBlocks(const CopyBlocksArgs& args) override;
  void Fill(const FillArgs& args) override;
  void Convert(const ConvertArgs& args) override;
  void Reorder(const ReorderArgs& args) override;

  // elementwise.cc
  void Combine(const CombineArgs& args) override;
  void Multiply(const MultiplyArgs& args) override;
  void Divide(const DivideArgs& args) override;
  void Affine(const AffineArgs& args) override;

  // reduce.cc
  void Sum(const SumArgs& args) override;
  void SumOfRows(const SumOfRowsArgs& args) override;
  void AddToRows(const AddToRowsArgs& args) override;
  void FillRows(const FillRowsArgs& args) override;
  void MeanOfSteps(const MeanOfStepsArgs& args) override;
  void MeanOfStepsBackward(const MeanOfStepsBackwardArgs& args) override;

  // add_up.cc, clip.cc
  void AddUp(const AddUpArgs& args) override;
  void SumOfSquares(const SumOfSquaresArgs& args) override;
  void Scale(const ScaleArgs& args) override;

  // dense.cc, convolution.cc, pool.cc, activation.cc
  void Dense(const DenseArgs& args) override;
  void DenseBackward(const DenseBackwardArgs& args) override;
  void Convolution(const ConvolutionArgs& args) override;
  void ConvolutionBackward(const ConvolutionBackwardArgs& args) override;
  void Pool(const PoolArgs& args) override;
  void PoolBackward(const PoolBackwardArgs& args) override;
  void Activation(const ActivationArgs& args) override;
  void ActivationBackward(const ActivationBackwardArgs& args) override;

  // batch_norm.cc, layer_norm.cc, dropout.cc
  void BatchNorm(const BatchNormArgs& args) override;
  void BatchNormBackward(const BatchNormBackwardArgs& args) override;
  void LayerNorm(const LayerNormArgs& args) override;
  void LayerNormBackward(const LayerNormBackwardArgs& args) override;
  void Dropout(const DropoutArgs& args) override;
  void DropoutBackward(const DropoutBackwardArgs& args) override;

  // softmax.cc, row_loss.cc
  void SoftmaxCrossEntropy(const SoftmaxCrossEntropyArgs& args) override;
  void SoftmaxCrossEntropyBackward(const SoftmaxCrossEntropyBackwardArgs& args) override;
  void LogSoftmax(const LogSoftmaxArgs& args) override;
  void LogSoftmaxBackward(const LogSoftmaxBackwardArgs& args) override;
  void RowLoss(const RowLossArgs& args) override;
  void RowLossBackward(const RowLossBackwardArgs& args) override;

  // embedding.cc
  void Embedding(const EmbeddingArgs& args) override;
  void EmbeddingBackward(const EmbeddingBackwardArgs& args) override;
  void EmbeddingBag(const EmbeddingBagArgs& args) override;
  void EmbeddingBagBackward(const EmbeddingBagBackwardArgs& args) override;

  // recurrent.cc
  void Recurrent(const RecurrentArgs& args) override;
  void RecurrentBackward(const RecurrentBackwardArgs& args) override;
  void RecurrentBackwardInput(const RecurrentBackwardInputArgs& args) override;
  void SequenceLengths(const SequenceLengthsArgs& args) override;

 private:
  // Returns `shape` with the arithmetic that is used for the one it asks for.
  template <typename Shape>
  Shape WithSupportedArithmetic(Shape shape) const {
    if (shape.arithmetic != Arithmetic::kBFloat16 || !multiplies_bfloat16_)
      shape.arithmetic = Arithmetic::kFloat32;
    return shape;
  }

  const bool multiplies_bfloat16_;
  OneDnn onednn_;
  // Memory that the methods keep, so that a call allocates nothing. Each belongs to the running call.
  std::vector<double> sums_;            // batch_norm.cc: two for each channel, for each piece of the rows;
                                        // clip.cc: one for each block
  std::vector<float> factors_;          // batch_norm.cc: four for each channel
  std::vector<int64_t> whole_numbers_;  // embedding.cc: the ids; recurrent.cc: the lengths
  std::vector<int64_t> bag_counts_;     // embedding.cc: the ids of each bag that are not padding
};

}  // namespace sluice::cpu

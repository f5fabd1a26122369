// Kernels, the operations that a device can compute. kernels/ has a header for each family of them, with
// the shapes and the arguments, which say what a kernel computes. Arrays are float32 and row-major unless a
// comment says otherwise, in PyTorch's layouts (images [n, c, h, w], convolution weights [o, i, kh, kw],
// dense weights [out, in]). cpu/ implements the interface with oneDNN, cuda/ with cuBLASLt and cuDNN. Kernels
// are called on the device's stream only, so an implementation may keep caches without locks. Pointers are to
// memory of the device. In all arguments of a method ending in Backward, `grad` is the gradient by the result
// of the method without that ending.
#pragma once

#include <memory>
#include <optional>

#include "tensor/kernels/activation.h"
#include "tensor/kernels/add_up.h"
#include "tensor/kernels/batch_norm.h"
#include "tensor/kernels/clip.h"
#include "tensor/kernels/convert.h"
#include "tensor/kernels/convolution.h"
#include "tensor/kernels/copy.h"
#include "tensor/kernels/dense.h"
#include "tensor/kernels/dropout.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/embedding.h"
#include "tensor/kernels/layer_norm.h"
#include "tensor/kernels/pool.h"
#include "tensor/kernels/recurrent.h"
#include "tensor/kernels/reduce.h"
#include "tensor/kernels/reorder.h"
#include "tensor/kernels/row_loss.h"
#include "tensor/kernels/sequence_lengths.h"
#include "tensor/kernels/softmax.h"

namespace sluice {

class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual void Copy(const CopyArgs& args) = 0;
  virtual void CopyAll(const CopyAllArgs& args) = 0;
  virtual void CopyBlocks(const CopyBlocksArgs& args) = 0;
  virtual void Fill(const FillArgs& args) = 0;
  virtual void Convert(const ConvertArgs& args) = 0;
  virtual void Reorder(const ReorderArgs& args) = 0;

  virtual void Combine(const CombineArgs& args) = 0;
  virtual void Multiply(const MultiplyArgs& args) = 0;
  virtual void Divide(const DivideArgs& args) = 0;
  virtual void Affine(const AffineArgs& args) = 0;

  virtual void Sum(const SumArgs& args) = 0;
  virtual void SumOfRows(const SumOfRowsArgs& args) = 0;
  virtual void AddToRows(const AddToRowsArgs& args) = 0;
  virtual void FillRows(const FillRowsArgs& args) = 0;
  virtual void MeanOfSteps(const MeanOfStepsArgs& args) = 0;
  virtual void MeanOfStepsBackward(const MeanOfStepsBackwardArgs& args) = 0;

  virtual void AddUp(const AddUpArgs& args) = 0;
  virtual void SumOfSquares(const SumOfSquaresArgs& args) = 0;
  virtual void Scale(const ScaleArgs& args) = 0;

  virtual void Dense(const DenseArgs& args) = 0;
  virtual void DenseBackward(const DenseBackwardArgs& args) = 0;
  virtual void Convolution(const ConvolutionArgs& args) = 0;
  virtual void ConvolutionBackward(const ConvolutionBackwardArgs& args) = 0;
  virtual void Pool(const PoolArgs& args) = 0;
  virtual void PoolBackward(const PoolBackwardArgs& args) = 0;
  virtual void Activation(const ActivationArgs& args) = 0;
  virtual void ActivationBackward(const ActivationBackwardArgs& args) = 0;

  virtual void BatchNorm(const BatchNormArgs& args) = 0;
  virtual void BatchNormBackward(const BatchNormBackwardArgs& args) = 0;
  virtual void LayerNorm(const LayerNormArgs& args) = 0;
  virtual void LayerNormBackward(const LayerNormBackwardArgs& args) = 0;
  virtual void Dropout(const DropoutArgs& args) = 0;
  virtual void DropoutBackward(const DropoutBackwardArgs& args) = 0;

  virtual void SoftmaxCrossEntropy(const SoftmaxCrossEntropyArgs& args) = 0;
  virtual void SoftmaxCrossEntropyBackward(const SoftmaxCrossEntropyBackwardArgs& args) = 0;
  virtual void LogSoftmax(const LogSoftmaxArgs& args) = 0;
  virtual void LogSoftmaxBackward(const LogSoftmaxBackwardArgs& args) = 0;
  virtual void RowLoss(const RowLossArgs& args) = 0;
  virtual void RowLossBackward(const RowLossBackwardArgs& args) = 0;

  virtual void Embedding(const EmbeddingArgs& args) = 0;
  virtual void EmbeddingBackward(const EmbeddingBackwardArgs& args) = 0;
  virtual void EmbeddingBag(const EmbeddingBagArgs& args) = 0;
  virtual void EmbeddingBagBackward(const EmbeddingBagBackwardArgs& args) = 0;

  virtual void Recurrent(const RecurrentArgs& args) = 0;
  virtual void RecurrentBackward(const RecurrentBackwardArgs& args) = 0;
  virtual void RecurrentBackwardInput(const RecurrentBackwardInputArgs& args) = 0;
  virtual void SequenceLengths(const SequenceLengthsArgs& args) = 0;
};

// Returns the kernels of cpu(i), which are implemented in cpu/. `multiplies_bfloat16` says whether
// Arithmetic::kBFloat16 rounds factors to bfloat16; if empty, it does where that is faster. Throws
// Error(kUnavailable) if it is true and the processor lacks AVX-512.
std::unique_ptr<Kernels> MakeCpuKernels(std::optional<bool> multiplies_bfloat16);

}  // namespace sluice

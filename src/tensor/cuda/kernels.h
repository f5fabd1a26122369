// CudaKernels, the Kernels of one card. Each family's methods are in the file of its name, as in cpu/. A
// method enqueues work on the card's stream and returns; it does not wait. Methods are called on one thread,
// on which the card is the current one. Labels, ids and lengths that are out of range are no errors of the
// call: they are found later, on the card (bad_input.h).
#pragma once

#include <memory>
#include <utility>

#include "tensor/cuda/bad_input.h"
#include "tensor/cuda/convolutions.h"
#include "tensor/cuda/error.h"
#include "tensor/cuda/workspace.h"
#include "tensor/kernels.h"
#include "tensor/product_shape.h"

namespace sluice::cuda {

class Products;

class CudaKernels final : public Kernels {
 public:
  // `found`, in the card's memory, is where kernels leave what they find wrong in their inputs. `make_room`
  // is that of Workspace.
  CudaKernels(cudaStream_t stream, BadInput* found, const std::function<bool()>& make_room = nullptr);
  ~CudaKernels() override;

  // Products and convolutions of Arithmetic::kFloat32 are computed in `arithmetic` from now on.
  void MultiplyFloat32As(Arithmetic arithmetic) { float32_as_ = arithmetic; }

  // The kernels that follow belong to the operation of this number.
  void Begin(uint64_t operation) {
    operation_ = operation;
    checks_inputs_ = false;
    late_error_ = nullptr;
  }
  // Whether kernels of the operation may find something, or do nothing if one before has.
  bool checks_inputs() const { return checks_inputs_; }

  // --- For what else computes on the card (kvstore/cuda/, collective/nccl/) ---

  cudaStream_t stream() const { return stream_; }
  Workspace& workspace() { return workspace_; }
  // `error` is asked when the card has done the operation: what it returns, unless null, is its error.
  void SetLateError(LateError error) { late_error_ = std::move(error); }
  LateError TakeLateError() { return std::exchange(late_error_, nullptr); }
  // Where kernels that check inputs or change lasting state look.
  InputCheck Check() {
    checks_inputs_ = true;
    return {found_, operation_};
  }

  // What dense and recurrent layers are made of. Extents may be 0: a sum of no products is 0.
  void Multiply(const ProductShape& shape, const float* a, const float* b, const float* bias, float* out);

  // copy.cu, convert.cu, reorder.cu
  void Copy(const CopyArgs& args) override;
  void CopyAll(const CopyAllArgs& args) override;
  void CopyBlocks(const CopyBlocksArgs& args) override;
  void Fill(const FillArgs& args) override;
  void Convert(const ConvertArgs& args) override;
  void Reorder(const ReorderArgs& args) override;

  // elementwise.cu
  void Combine(const CombineArgs& args) override;
  void Multiply(const MultiplyArgs& args) override;
  void Divide(const DivideArgs& args) override;
  void Affine(const AffineArgs& args) override;

  // reduce.cu
  void Sum(const SumArgs& args) override;
  void SumOfRows(const SumOfRowsArgs& args) override;
  void AddToRows(const AddToRowsArgs& args) override;
  void FillRows(const FillRowsArgs& args) override;
  void MeanOfSteps(const MeanOfStepsArgs& args) override;
  void MeanOfStepsBackward(const MeanOfStepsBackwardArgs& args) override;

  // add_up.cu, clip.cu
  void AddUp(const AddUpArgs& args) override;
  void SumOfSquares(const SumOfSquaresArgs& args) override;
  void Scale(const ScaleArgs& args) override;

  // dense.cc, convolution.cc, activation.cu, pool.cu
  void Dense(const DenseArgs& args) override;
  void DenseBackward(const DenseBackwardArgs& args) override;
  void Convolution(const ConvolutionArgs& args) override;
  void ConvolutionBackward(const ConvolutionBackwardArgs& args) override;
  void Activation(const ActivationArgs& args) override;
  void ActivationBackward(const ActivationBackwardArgs& args) override;
  void Pool(const PoolArgs& args) override;
  void PoolBackward(const PoolBackwardArgs& args) override;

  // batch_norm.cu, layer_norm.cu, dropout.cu
  void BatchNorm(const BatchNormArgs& args) override;
  void BatchNormBackward(const BatchNormBackwardArgs& args) override;
  void LayerNorm(const LayerNormArgs& args) override;
  void LayerNormBackward(const LayerNormBackwardArgs& args) override;
  void Dropout(const DropoutArgs& args) override;
  void DropoutBackward(const DropoutBackwardArgs& args) override;

  // softmax.cu, row_loss.cu
  void SoftmaxCrossEntropy(const SoftmaxCrossEntropyArgs& args) override;
  void SoftmaxCrossEntropyBackward(const SoftmaxCrossEntropyBackwardArgs& args) override;
  void LogSoftmax(const LogSoftmaxArgs& args) override;
  void LogSoftmaxBackward(const LogSoftmaxBackwardArgs& args) override;
  void RowLoss(const RowLossArgs& args) override;
  void RowLossBackward(const RowLossBackwardArgs& args) override;

  // recurrent.cc
  void Recurrent(const RecurrentArgs& args) override;
  void RecurrentBackward(const RecurrentBackwardArgs& args) override;
  void RecurrentBackwardInput(const RecurrentBackwardInputArgs& args) override;

  // embedding.cu
  void Embedding(const EmbeddingArgs& args) override;
  void EmbeddingBackward(const EmbeddingBackwardArgs& args) override;
  void EmbeddingBag(const EmbeddingBagArgs& args) override;
  void EmbeddingBagBackward(const EmbeddingBagBackwardArgs& args) override;
  void SequenceLengths(const SequenceLengthsArgs& args) override;

 private:
  // Returns the lengths as numbers of the card, null if there are none.
  const int64_t* Lengths(const RecurrentShape& shape, const void* lengths);
  // AddToRows, and the activation of its result, in one pass.
  void AddBiasAndActivate(const ActivationShape& shape, const AddToRowsArgs& args);
  void Convolve(ConvShape shape, ConvolutionPass pass, const ConvolutionArrays& arrays);
  Arithmetic Chosen(Arithmetic asked) const { return asked == Arithmetic::kFloat32 ? float32_as_ : asked; }

  const cudaStream_t stream_;
  BadInput* const found_;
  Workspace workspace_;
  std::unique_ptr<Products> products_;          // each is made by the first kernel that needs it
  std::unique_ptr<Convolutions> convolutions_;  // since it loads a library
  Workspace lengths_;                           // recurrent.cc: the sequences' lengths
  Arithmetic float32_as_ = Arithmetic::kFloat32;
  uint64_t operation_ = 0;
  bool checks_inputs_ = false;
  LateError late_error_;
};

}  // namespace sluice::cuda

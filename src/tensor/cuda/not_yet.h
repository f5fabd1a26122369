// The kernels that no card computes yet: each throws Error(kUnimplemented). CudaKernels overrides the others,
// and nothing of the library makes a CudaKernels before this file is empty.
#pragma once

#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/kernels.h"

namespace sluice::cuda {

class NotYet : public Kernels {
 public:
  void Dense(const DenseArgs&) override { Throw("Dense"); }
  void DenseBackward(const DenseBackwardArgs&) override { Throw("DenseBackward"); }
  void Convolution(const ConvolutionArgs&) override { Throw("Convolution"); }
  void ConvolutionBackward(const ConvolutionBackwardArgs&) override { Throw("ConvolutionBackward"); }
  void Pool(const PoolArgs&) override { Throw("Pool"); }
  void PoolBackward(const PoolBackwardArgs&) override { Throw("PoolBackward"); }
  void Activation(const ActivationArgs&) override { Throw("Activation"); }
  void ActivationBackward(const ActivationBackwardArgs&) override { Throw("ActivationBackward"); }
  void BatchNorm(const BatchNormArgs&) override { Throw("BatchNorm"); }
  void BatchNormBackward(const BatchNormBackwardArgs&) override { Throw("BatchNormBackward"); }
  void LayerNorm(const LayerNormArgs&) override { Throw("LayerNorm"); }
  void LayerNormBackward(const LayerNormBackwardArgs&) override { Throw("LayerNormBackward"); }
  void Dropout(const DropoutArgs&) override { Throw("Dropout"); }
  void DropoutBackward(const DropoutBackwardArgs&) override { Throw("DropoutBackward"); }
  void SoftmaxCrossEntropy(const SoftmaxCrossEntropyArgs&) override { Throw("SoftmaxCrossEntropy"); }
  void SoftmaxCrossEntropyBackward(const SoftmaxCrossEntropyBackwardArgs&) override {
    Throw("SoftmaxCrossEntropyBackward");
  }
  void LogSoftmax(const LogSoftmaxArgs&) override { Throw("LogSoftmax"); }
  void LogSoftmaxBackward(const LogSoftmaxBackwardArgs&) override { Throw("LogSoftmaxBackward"); }
  void RowLoss(const RowLossArgs&) override { Throw("RowLoss"); }
  void RowLossBackward(const RowLossBackwardArgs&) override { Throw("RowLossBackward"); }
  void Embedding(const EmbeddingArgs&) override { Throw("Embedding"); }
  void EmbeddingBackward(const EmbeddingBackwardArgs&) override { Throw("EmbeddingBackward"); }
  void EmbeddingBag(const EmbeddingBagArgs&) override { Throw("EmbeddingBag"); }
  void EmbeddingBagBackward(const EmbeddingBagBackwardArgs&) override { Throw("EmbeddingBagBackward"); }
  void Recurrent(const RecurrentArgs&) override { Throw("Recurrent"); }
  void RecurrentBackward(const RecurrentBackwardArgs&) override { Throw("RecurrentBackward"); }
  void RecurrentBackwardInput(const RecurrentBackwardInputArgs&) override { Throw("RecurrentBackwardInput"); }
  void SequenceLengths(const SequenceLengthsArgs&) override { Throw("SequenceLengths"); }

 private:
  [[noreturn]] static void Throw(const char* kernel) {
    throw Error(ErrorCode::kUnimplemented,
                StrCat("gpu contexts do not compute ", kernel, " in this version"));
  }
};

}  // namespace sluice::cuda

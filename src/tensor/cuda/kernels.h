// CudaKernels, the Kernels of one card. Each family's methods are in the file of its name, as in cpu/. A
// method enqueues work on the card's stream and returns; it does not wait. Methods are called on one thread,
// on which the card is the current one.
#pragma once

#include "tensor/cuda/not_yet.h"
#include "tensor/cuda/workspace.h"

namespace sluice::cuda {

class CudaKernels final : public NotYet {
 public:
  explicit CudaKernels(cudaStream_t stream) : stream_(stream), workspace_(stream) {}

  // copy.cu, convert.cu, reorder.cu
  void Copy(const CopyArgs& args) override;
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

 private:
  const cudaStream_t stream_;
  Workspace workspace_;
};

}  // namespace sluice::cuda

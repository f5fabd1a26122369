#include "tensor/cuda/convolutions.h"
#include "tensor/cuda/kernels.h"

namespace sluice::cuda {
namespace {

int64_t Weights(const ConvShape& s) {
  return s.out_channels * (s.in_channels / s.groups) * s.window.height * s.window.width;
}
int64_t OutRows(const ConvShape& s) {
  return s.batch * s.out_height() * s.out_width();
}
int64_t Inputs(const ConvShape& s) {
  return s.batch * s.in_channels * s.in_height * s.in_width;
}

bool AreAligned(const ConvolutionArrays& arrays) {
  const auto all = reinterpret_cast<uintptr_t>(arrays.x) | reinterpret_cast<uintptr_t>(arrays.weight) |
                   reinterpret_cast<uintptr_t>(arrays.out);
  return all % 16 == 0;
}

}  // namespace

void CudaKernels::Convolve(ConvShape shape, ConvolutionPass pass, const ConvolutionArrays& arrays) {
  shape.arithmetic = Chosen(shape.arithmetic);
  if (convolutions_ == nullptr) convolutions_ = std::make_unique<Convolutions>(stream_, workspace_);
  convolutions_->Run({shape, pass, ImageLayout::kChannelsLast, AreAligned(arrays)}, arrays);
}

void CudaKernels::Convolution(const ConvolutionArgs& args) {
  const ConvShape& s = args.shape;
  const int64_t rows = OutRows(s), n = rows * s.out_channels;
  if (n == 0) return;
  if (Weights(s) > 0) {
    Convolve(s, ConvolutionPass::kForward, {args.x, args.weight, args.out});
  } else {
    Fill({.dtype = DType::kFloat32, .out = args.out, .value = 0, .n = n});
  }
  const AddToRowsArgs biased{.values = args.bias, .out = args.out, .rows = rows, .columns = s.out_channels};
  if (args.bias != nullptr && args.after) return AddBiasAndActivate(*args.after, biased);
  if (args.bias != nullptr) AddToRows(biased);
  if (args.after) Activation({.shape = *args.after, .x = args.out, .out = args.out, .n = n});
}

void CudaKernels::ConvolutionBackward(const ConvolutionBackwardArgs& args) {
  const ConvShape& s = args.shape;
  const bool computes = OutRows(s) > 0 && Weights(s) > 0;
  const auto convolve = [&](ConvolutionPass pass, const ConvolutionArrays& arrays, float* to, int64_t n) {
    if (to == nullptr) return;
    if (computes) return Convolve(s, pass, arrays);
    Fill({.dtype = DType::kFloat32, .out = to, .value = 0, .n = n});
  };
  convolve(ConvolutionPass::kGradWeight, {args.x, args.grad_weight, args.grad}, args.grad_weight, Weights(s));
  convolve(ConvolutionPass::kGradX, {args.grad_x, args.weight, args.grad}, args.grad_x, Inputs(s));
  if (args.grad_bias != nullptr)
    SumOfRows({.a = args.grad, .sums = args.grad_bias, .rows = OutRows(s), .columns = s.out_channels});
}

}  // namespace sluice::cuda

#include <cstring>

#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/kernels.h"

namespace sluice::cpu {
namespace {

// Whether oneDNN's version of an activation turns NaN into 0: its relu is a maximum.
bool LosesNanInOneDnn(const ActivationShape& a) {
  return a.kind == ActivationKind::kRelu || (a.kind == ActivationKind::kLeakyRelu && a.alpha == 0);
}

}  // namespace

void CpuKernels::Convolution(const ConvolutionArgs& args) {
  const ConvShape& s = args.shape;
  if (s.batch == 0) return;
  ConvolutionArgs supported = args;
  supported.shape = WithSupportedArithmetic(s);
  const bool apart = args.after && LosesNanInOneDnn(*args.after);
  if (apart) supported.after = std::nullopt;
  onednn_.Convolution(supported);
  if (!apart) return;
  Activation({.shape = *args.after,
              .x = args.out,
              .out = args.out,
              .n = s.batch * s.out_channels * s.out_height() * s.out_width()});
}

void CpuKernels::ConvolutionBackward(const ConvolutionBackwardArgs& args) {
  ConvolutionBackwardArgs supported = args;
  supported.shape = WithSupportedArithmetic(args.shape);
  const ConvShape& s = supported.shape;
  float*& grad_bias = supported.grad_bias;
  if (args.grad_weight == nullptr && grad_bias != nullptr) {
    SumRows(args.grad, grad_bias, s.batch * s.out_height() * s.out_width(), s.out_channels);
    grad_bias = nullptr;
  }
  if (s.batch > 0) return onednn_.ConvolutionBackward(supported);
  const auto elements =
      static_cast<size_t>(s.out_channels * (s.in_channels / s.groups) * s.window.height * s.window.width);
  if (args.grad_weight != nullptr) std::memset(args.grad_weight, 0, elements * sizeof(float));
  if (grad_bias != nullptr) std::memset(grad_bias, 0, static_cast<size_t>(s.out_channels) * sizeof(float));
}

}  // namespace sluice::cpu

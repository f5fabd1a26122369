// Pooling of images, in both layouts.
#pragma once

#include <cstdint>

#include "tensor/kernels/convolution.h"
#include "tensor/kernels/reorder.h"

namespace sluice {

enum class PoolKind : uint8_t { kMax, kAverage };  // averages count padding, as PyTorch's default does

using PoolShape = ConvShape;  // out_channels equals in_channels; no dilation, one group

struct PoolArgs {
  PoolKind kind;
  ImageLayout layout;
  PoolShape shape;
  const float* x;
  float* out;
  // For kMax only, which needs it: for each output, in the outputs' layout, the place in its plane of the
  // input that it came from (row * width + column). The first of several equal maxima is taken; if there is
  // a NaN, the last NaN.
  int32_t* where = nullptr;
};

struct PoolBackwardArgs {
  PoolKind kind;
  ImageLayout layout;
  PoolShape shape;
  const float* grad;
  const int32_t* where = nullptr;  // as Pool left it
  float* grad_x;
};

}  // namespace sluice

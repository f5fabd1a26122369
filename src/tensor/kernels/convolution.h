// Convolutions over images, which lie kChannelsLast.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

#include "tensor/kernels/activation.h"
#include "tensor/kernels/dense.h"
#include "tensor/kernels/reorder.h"

namespace sluice {

struct WindowShape {
  int64_t height = 1, width = 1;
  int64_t stride_height = 1, stride_width = 1;
  int64_t pad_height = 0, pad_width = 0;
  int64_t dilation_height = 1, dilation_width = 1;
  // The extents with dilation, from the first to the last row and column.
  int64_t full_height() const { return dilation_height * (height - 1) + 1; }
  int64_t full_width() const { return dilation_width * (width - 1) + 1; }
  auto operator<=>(const WindowShape&) const = default;
};

struct ConvShape {
  int64_t batch = 0, in_channels = 0, in_height = 0, in_width = 0, out_channels = 0;
  WindowShape window;
  int64_t groups = 1;  // into which in_channels and out_channels are divided
  Arithmetic arithmetic = Arithmetic::kFloat32;
  int64_t out_height() const {
    return (in_height + 2 * window.pad_height - window.full_height()) / window.stride_height + 1;
  }
  int64_t out_width() const {
    return (in_width + 2 * window.pad_width - window.full_width()) / window.stride_width + 1;
  }
  PlanesShape in_planes() const { return {batch, in_channels, in_height * in_width}; }
  auto operator<=>(const ConvShape&) const = default;
};

struct ConvolutionArgs {
  ConvShape shape;
  const float* x;
  const float* weight;          // [out_channels, in_channels / groups, height, width] of the window
  const float* bias = nullptr;  // [out_channels]; null: zeros
  std::optional<ActivationShape> after{};  // is applied to the result; its FromOutput() is true
  float* out;
};

// Gradients that are null are not computed.
struct ConvolutionBackwardArgs {
  ConvShape shape;
  const float* x = nullptr;       // may be null without grad_weight
  const float* weight = nullptr;  // may be null without grad_x
  const float* grad;
  float* grad_x = nullptr;
  float* grad_weight = nullptr;
  float* grad_bias = nullptr;
};

}  // namespace sluice

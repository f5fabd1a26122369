// Convolutions of images [batch, channels, height, width]; see sluice/nn.h.
#pragma once

#include "sluice/nn/activation.h"
#include "sluice/nn/layer.h"
#include "sluice/nn/window.h"

namespace sluice::nn {

// Cross-correlation with W [channels, in_channels / groups, kh, kw]:
//
//   out = floor((in + 2 padding - dilation (kernel - 1) - 1) / stride) + 1
//
// The channels of input and output are divided into `groups` equal parts, and each part of the output depends
// on its part of the input only; groups == in_channels is the depthwise convolution.
class Conv2D final : public WeightedLayer {
 public:
  struct Options {
    Window stride = 1;
    Window padding = 0;
    bool use_bias = true;
    int64_t in_channels = 0;  // 0: taken from the first input
    Window dilation = 1;      // distance between the elements of the kernel
    int64_t groups = 1;
  };
  Conv2D(int64_t channels, Window kernel) : Conv2D(channels, kernel, Options()) {}
  Conv2D(int64_t channels, Window kernel, Options options);
  NDArray Forward(const NDArray& x) override;
  // Returns `activation` of Forward(x), in one pass if the derivative of the activation can be computed from
  // its output.
  NDArray ForwardActivated(const NDArray& x, const Activation& activation);
  std::string_view kind() const override { return "Conv2D"; }

 private:
  NDArray Run(const NDArray& x, const Activation* activation);
  int64_t channels_;
  Window kernel_;
  Options options_;
};

// The gradient of Conv2D with respect to its input, as a layer ("deconvolution"), with
// W [in_channels, channels / groups, kh, kw]:
//
//   out = (in - 1) stride - 2 padding + dilation (kernel - 1) + 1 + output_padding
//
// A convolution has the same output size for several input sizes; output_padding, smaller than the stride,
// selects one of these.
class Conv2DTranspose final : public WeightedLayer {
 public:
  struct Options {
    Window stride = 1;
    Window padding = 0;
    Window output_padding = 0;  // additional rows at the bottom and columns at the right
    bool use_bias = true;
    int64_t in_channels = 0;  // 0: taken from the first input
    Window dilation = 1;
    int64_t groups = 1;
  };
  Conv2DTranspose(int64_t channels, Window kernel) : Conv2DTranspose(channels, kernel, Options()) {}
  Conv2DTranspose(int64_t channels, Window kernel, Options options);
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "Conv2DTranspose"; }

 private:
  int64_t channels_;
  Window kernel_;
  Options options_;
};

}  // namespace sluice::nn

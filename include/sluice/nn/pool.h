// Pooling layers for images [batch, channels, height, width]; see sluice/nn.h.
#pragma once

#include "sluice/nn/layer.h"
#include "sluice/nn/window.h"

namespace sluice::nn {

// The base of pooling layers: out = floor((in + 2 padding - window) / stride) + 1. The stride is equal to the
// window unless it is given.
class Pool2D : public PlainLayer {
 public:
  NDArray Forward(const NDArray& x) override;

 protected:
  Pool2D(std::string_view kind, Window window, Window stride, Window padding);
  virtual NDArray Pool(const NDArray& x) const = 0;
  Window window_, stride_, padding_;
};

// The largest value of each window. The gradient goes to the first of several largest values.
class MaxPool2D final : public Pool2D {
 public:
  explicit MaxPool2D(Window window) : MaxPool2D(window, window) {}
  MaxPool2D(Window window, Window stride, Window padding = 0)
      : Pool2D("MaxPool2D", window, stride, padding) {}
  std::string_view kind() const override { return "MaxPool2D"; }

 private:
  NDArray Pool(const NDArray& x) const override;
};

// The mean of each window, which includes the zeros of the padding.
class AvgPool2D final : public Pool2D {
 public:
  explicit AvgPool2D(Window window) : AvgPool2D(window, window) {}
  AvgPool2D(Window window, Window stride, Window padding = 0)
      : Pool2D("AvgPool2D", window, stride, padding) {}
  std::string_view kind() const override { return "AvgPool2D"; }

 private:
  NDArray Pool(const NDArray& x) const override;
};

// The mean, or the largest value, of each channel, for images of any size: [batch, channels, 1, 1].
class GlobalAvgPool2D final : public PlainLayer {
 public:
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "GlobalAvgPool2D"; }
};

class GlobalMaxPool2D final : public PlainLayer {
 public:
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "GlobalMaxPool2D"; }
};

}  // namespace sluice::nn

// Layers and networks of them.
//
//   nn::Sequential net;
//   net.Add("conv1", nn::Conv2D(20, 5)).Add("tanh1", nn::Activation::Tanh()).Add("fc1", nn::Dense(10));
//   net.CollectParams().Initialize({cpu(0), cpu(1)});
//   NDArray y = net(x);   // on x's context, with the parameters there
//
// Arrays are float32, images [batch, channels, height, width]. Input sizes may be left open: the first
// forward fills them in. A wrong input is Error(kInvalidArgument) naming the layer, the shape it expects and
// the shape it got.
//
// Thread safety: one network from one thread at a time; work on different contexts runs in parallel all the
// same.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/ndarray.h"
#include "sluice/parameter.h"

namespace sluice::nn {

class Layer {
 public:
  virtual ~Layer() = default;
  Layer(Layer&&) = default;
  Layer& operator=(Layer&&) = default;

  // Recorded inside autograd::RecordScope.
  virtual NDArray Forward(const NDArray& x) = 0;
  NDArray operator()(const NDArray& x) { return Forward(x); }

  // Its own parameters and its children's, in the order of the forward, with full names ("conv1.weight").
  virtual ParameterDict CollectParams() const = 0;
  // "conv1"; set by the Sequential it is added to, before Initialize.
  const std::string& name() const { return name_; }
  virtual std::string_view kind() const = 0;  // "Conv2D"
  // Puts `prefix` and a dot before its name and those of all inside it.
  virtual void AddPrefix(const std::string& prefix);

 protected:
  Layer() = default;
  // "conv1 (Conv2D)"
  std::string Describe() const;

 private:
  std::string name_;
};

// Height and width of a window, a step or a border. One number means both.
struct Window {
  Window(int64_t side) : height(side), width(side) {}  // NOLINT: implicit on purpose
  Window(int64_t height, int64_t width) : height(height), width(width) {}
  int64_t height, width;
  bool operator==(const Window&) const = default;
};

// A layer with weight and bias: what Dense and Conv2D share.
class WeightedLayer : public Layer {
 public:
  ParameterDict CollectParams() const override;
  void AddPrefix(const std::string& prefix) override;
  Parameter& weight() const { return *weight_; }
  Parameter* bias() const { return bias_.get(); }  // null without one

 protected:
  WeightedLayer(const Shape& weight_shape, bool use_bias);
  // The arrays on x's context; an empty one for no bias. Fills in the input size.
  NDArray WeightFor(const NDArray& x, const Shape& weight_shape);
  NDArray BiasFor(const NDArray& x);

 private:
  std::shared_ptr<Parameter> weight_, bias_;
};

// y = x W^T + b with W [units, in_units]; x [batch, ...] is flattened to [batch, in_units].
class Dense final : public WeightedLayer {
 public:
  struct Options {
    bool use_bias = true;
    int64_t in_units = 0;  // 0: from the first input
  };
  explicit Dense(int64_t units) : Dense(units, Options()) {}
  Dense(int64_t units, Options options);
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "Dense"; }

 private:
  int64_t units_;
};

// Cross-correlation with W [channels, in_channels, kh, kw]: out = floor((in + 2 padding - kernel) / stride)
// + 1.
class Conv2D final : public WeightedLayer {
 public:
  struct Options {
    Window stride = 1;
    Window padding = 0;
    bool use_bias = true;
    int64_t in_channels = 0;  // 0: from the first input
  };
  Conv2D(int64_t channels, Window kernel) : Conv2D(channels, kernel, Options()) {}
  Conv2D(int64_t channels, Window kernel, Options options);
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "Conv2D"; }

 private:
  int64_t channels_;
  Window kernel_, stride_, padding_;
};

// A layer without parameters.
class PlainLayer : public Layer {
 public:
  ParameterDict CollectParams() const override { return {}; }
};

// Pooling: out = floor((in + 2 padding - window) / stride) + 1; the stride is the window unless given.
class Pool2D : public PlainLayer {
 public:
  NDArray Forward(const NDArray& x) override;

 protected:
  Pool2D(std::string_view kind, Window window, Window stride, Window padding);
  virtual NDArray Pool(const NDArray& x) const = 0;
  Window window_, stride_, padding_;
};

// The largest value of each window; its gradient goes to the first largest.
class MaxPool2D final : public Pool2D {
 public:
  explicit MaxPool2D(Window window) : MaxPool2D(window, window) {}
  MaxPool2D(Window window, Window stride, Window padding = 0)
      : Pool2D("MaxPool2D", window, stride, padding) {}
  std::string_view kind() const override { return "MaxPool2D"; }

 private:
  NDArray Pool(const NDArray& x) const override;
};

// The mean of each window; the border's zeros count.
class AvgPool2D final : public Pool2D {
 public:
  explicit AvgPool2D(Window window) : AvgPool2D(window, window) {}
  AvgPool2D(Window window, Window stride, Window padding = 0)
      : Pool2D("AvgPool2D", window, stride, padding) {}
  std::string_view kind() const override { return "AvgPool2D"; }

 private:
  NDArray Pool(const NDArray& x) const override;
};

// Element by element: relu max(x, 0) (gradient 0 at 0), tanh, sigmoid 1 / (1 + exp(-x)).
class Activation final : public PlainLayer {
 public:
  enum class Function : uint8_t { kRelu, kTanh, kSigmoid };
  explicit Activation(Function function) : function_(function) {}
  explicit Activation(std::string_view name);  // "relu", "tanh", "sigmoid"
  static Activation Relu() { return Activation(Function::kRelu); }
  static Activation Tanh() { return Activation(Function::kTanh); }
  static Activation Sigmoid() { return Activation(Function::kSigmoid); }
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "Activation"; }

 private:
  Function function_;
};

// [batch, ...] -> [batch, product of the rest], in the order channel, height, width.
class Flatten final : public PlainLayer {
 public:
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "Flatten"; }
};

// Layers one after the other. Children are called by the names they are added under, else "0", "1", ...
class Sequential final : public Layer {
 public:
  template <typename L>
  requires std::derived_from<L, Layer> Sequential& Add(const std::string& name, L layer) {
    return AddChild(name, std::make_unique<L>(std::move(layer)));
  }
  template <typename L>
  requires std::derived_from<L, Layer> Sequential& Add(L layer) {
    return Add(std::to_string(size()), std::move(layer));
  }

  NDArray Forward(const NDArray& x) override;
  ParameterDict CollectParams() const override;
  std::string_view kind() const override { return "Sequential"; }
  void AddPrefix(const std::string& prefix) override;
  size_t size() const { return layers_.size(); }
  Layer& operator[](size_t i) const { return *layers_.at(i); }

 private:
  Sequential& AddChild(const std::string& name, std::unique_ptr<Layer> layer);

  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace sluice::nn

#include <algorithm>
#include <array>

#include "autograd/ops.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "sluice/nn.h"

namespace sluice::nn {
namespace {

[[noreturn]] void Refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

std::string ToString(const Window& window) {
  return StrCat(window.height, "x", window.width);
}

void RequireAtLeast(std::string_view what, int64_t value, int64_t least) {
  if (value < least) Refuse(StrCat(what, " is ", value, "; it must be at least ", least));
}

void RequireAtLeast(std::string_view what, const Window& window, int64_t least) {
  if (std::min(window.height, window.width) < least) {
    Refuse(StrCat(what, " is ", ToString(window), "; both numbers must be at least ", least));
  }
}

// `layer` has to find at least one window position in the image x [batch, channels, height, width]; channels
// 0: any number.
void RequireImage(const std::string& layer, const Shape& x, int64_t channels, const Window& window,
                  const Window& padding) {
  if (x.ndim() != 4 || (channels != 0 && x[1] != channels)) {
    Refuse(StrCat(layer, " expects input of shape [batch, ",
                  channels == 0 ? "channels" : std::to_string(channels), ", height, width] and got ", x));
  }
  if (x[2] + 2 * padding.height < window.height || x[3] + 2 * padding.width < window.width) {
    Refuse(StrCat(layer, " expects input of at least ", ToString(window), " with its padding of ",
                  ToString(padding), " and got ", x));
  }
}

ops::Window2D ToOps(const Window& kernel, const Window& stride, const Window& padding) {
  return {kernel.height, kernel.width, stride.height, stride.width, padding.height, padding.width};
}

}  // namespace

void Layer::AddPrefix(const std::string& prefix) {
  name_ = name_.empty() ? prefix : StrCat(prefix, ".", name_);
}

std::string Layer::Describe() const {
  return name_.empty() ? std::string(kind()) : StrCat(name_, " (", kind(), ")");
}

WeightedLayer::WeightedLayer(const Shape& weight_shape, bool use_bias)
    : weight_(std::make_shared<Parameter>("weight", weight_shape)) {
  if (!use_bias) return;
  bias_ = std::make_shared<Parameter>("bias", Shape{weight_shape[0]},
                                      ParameterOptions{.wd_mult = 0, .init = std::make_shared<Zero>()});
}

ParameterDict WeightedLayer::CollectParams() const {
  ParameterDict parameters;
  parameters.Add(weight_);
  if (bias_) parameters.Add(bias_);
  return parameters;
}

void WeightedLayer::AddPrefix(const std::string& prefix) {
  Layer::AddPrefix(prefix);
  weight_->SetName(StrCat(prefix, ".", weight_->name()));
  if (bias_) bias_->SetName(StrCat(prefix, ".", bias_->name()));
}

NDArray WeightedLayer::WeightFor(const NDArray& x, const Shape& weight_shape) {
  weight_->SetShape(weight_shape);
  return weight_->data(x.context());
}

NDArray WeightedLayer::BiasFor(const NDArray& x) {
  return bias_ ? bias_->data(x.context()) : NDArray();
}

Dense::Dense(int64_t units, Options options)
    : WeightedLayer((RequireAtLeast("Dense: the number of units", units, 1),
                     RequireAtLeast("Dense: in_units", options.in_units, 0), Shape{units, options.in_units}),
                    options.use_bias),
      units_(units) {}

NDArray Dense::Forward(const NDArray& x) {
  const Shape& shape = x.shape();
  const int64_t known = weight().shape()[1];
  const int64_t in_units = shape.ndim() < 2 || shape[0] == 0 ? 0 : shape.size() / shape[0];
  if (in_units == 0 || (known != 0 && in_units != known)) {
    Refuse(StrCat(Describe(), " expects input of shape [batch, ",
                  known == 0 ? "in_units" : std::to_string(known), "] and got ", shape));
  }
  const NDArray rows = shape.ndim() == 2 ? x : ops::Flatten(x);
  return ops::Dense(rows, WeightFor(x, {units_, in_units}), BiasFor(x));
}

Conv2D::Conv2D(int64_t channels, Window kernel, Options options)
    : WeightedLayer((RequireAtLeast("Conv2D: the number of channels", channels, 1),
                     RequireAtLeast("Conv2D: in_channels", options.in_channels, 0),
                     RequireAtLeast("Conv2D: the kernel", kernel, 1),
                     RequireAtLeast("Conv2D: the stride", options.stride, 1),
                     RequireAtLeast("Conv2D: the padding", options.padding, 0),
                     Shape{channels, options.in_channels, kernel.height, kernel.width}),
                    options.use_bias),
      channels_(channels),
      kernel_(kernel),
      stride_(options.stride),
      padding_(options.padding) {}

NDArray Conv2D::Forward(const NDArray& x) {
  RequireImage(Describe(), x.shape(), weight().shape()[1], kernel_, padding_);
  const NDArray weight = WeightFor(x, {channels_, x.shape()[1], kernel_.height, kernel_.width});
  return ops::Conv2D(x, weight, BiasFor(x), ToOps(kernel_, stride_, padding_));
}

Pool2D::Pool2D(std::string_view kind, Window window, Window stride, Window padding)
    : window_(window), stride_(stride), padding_(padding) {
  RequireAtLeast(StrCat(kind, ": the window"), window, 1);
  RequireAtLeast(StrCat(kind, ": the stride"), stride, 1);
  RequireAtLeast(StrCat(kind, ": the padding"), padding, 0);
  if (padding.height >= window.height || padding.width >= window.width) {
    Refuse(StrCat(kind, ": the padding ", ToString(padding), " must be smaller than the window ",
                  ToString(window)));
  }
}

NDArray Pool2D::Forward(const NDArray& x) {
  RequireImage(Describe(), x.shape(), 0, window_, padding_);
  return Pool(x);
}

NDArray MaxPool2D::Pool(const NDArray& x) const {
  return ops::MaxPool2D(x, ToOps(window_, stride_, padding_));
}

NDArray AvgPool2D::Pool(const NDArray& x) const {
  return ops::AvgPool2D(x, ToOps(window_, stride_, padding_));
}

Activation::Activation(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Function>, 3> kFunctions = {
      {{"relu", Function::kRelu}, {"tanh", Function::kTanh}, {"sigmoid", Function::kSigmoid}}};
  const auto found =
      std::find_if(kFunctions.begin(), kFunctions.end(), [&](const auto& f) { return f.first == name; });
  if (found == kFunctions.end())
    Refuse(StrCat("no activation is called '", name, "'; there are relu, tanh, sigmoid"));
  function_ = found->second;
}

NDArray Activation::Forward(const NDArray& x) {
  switch (function_) {
    case Function::kRelu:
      return ops::Relu(x);
    case Function::kTanh:
      return ops::Tanh(x);
    case Function::kSigmoid:
      break;
  }
  return ops::Sigmoid(x);
}

NDArray Flatten::Forward(const NDArray& x) {
  if (x.shape().ndim() < 2)
    Refuse(StrCat(Describe(), " expects input of shape [batch, ...] and got ", x.shape()));
  return ops::Flatten(x);
}

Sequential& Sequential::AddChild(const std::string& name, std::unique_ptr<Layer> layer) {
  if (name.empty()) Refuse("a layer of a Sequential needs a name");
  layer->AddPrefix(name);
  if (!this->name().empty()) layer->AddPrefix(this->name());
  const auto same = [&](const auto& other) { return other->name() == layer->name(); };
  if (std::any_of(layers_.begin(), layers_.end(), same)) {
    throw Error(ErrorCode::kAlreadyExists,
                StrCat("two layers of one Sequential are called '", layer->name(), "'"));
  }
  layers_.push_back(std::move(layer));
  return *this;
}

NDArray Sequential::Forward(const NDArray& x) {
  NDArray y = x;
  for (const auto& layer : layers_) y = layer->Forward(y);
  return y;
}

ParameterDict Sequential::CollectParams() const {
  ParameterDict parameters;
  for (const auto& layer : layers_) parameters.Update(layer->CollectParams());
  return parameters;
}

void Sequential::AddPrefix(const std::string& prefix) {
  Layer::AddPrefix(prefix);
  for (const auto& layer : layers_) layer->AddPrefix(prefix);
}

}  // namespace sluice::nn

// Layers made of layers: Children, Lambda, Sequential, Concurrent and Residual.
//
// A container owns its children and puts its own name before theirs; two children of one name are an
// error. Sequential and Residual run layers through ForwardRange, which fuses neighbours (fusion.h).
// Forward runs on the caller's thread, and containers hold no state between calls.
#include "sluice/nn/container.h"

#include <algorithm>

#include "autograd/ops.h"
#include "base/inline_vector.h"
#include "nn/fusion.h"
#include "nn/require.h"
#include "sluice/nn/norm.h"

namespace sluice::nn {

void Children::Add(const Layer& container, const std::string& name, std::unique_ptr<Layer> layer) {
  if (name.empty()) ThrowInvalid(StrCat("a layer of a ", container.kind(), " needs a name"));
  if (layer == nullptr)
    ThrowInvalid(StrCat("layer '", name, "' of a ", container.kind(), " is a null pointer"));
  layer->AddPrefix(name);
  if (!container.name().empty()) layer->AddPrefix(container.name());
  const auto same = [&](const auto& other) { return other->name() == layer->name(); };
  if (std::any_of(layers_.begin(), layers_.end(), same)) {
    throw Error(ErrorCode::kAlreadyExists,
                StrCat("two layers of one ", container.kind(), " are called '", layer->name(), "'"));
  }
  layers_.push_back(std::move(layer));
}

Layer& Children::operator[](size_t i) const {
  if (i >= size())
    ThrowInvalid(StrCat("there is no layer ", i, "; the container has ", size(), ", from 0 on"));
  return *layers_[i];
}

void Children::AddPrefix(const std::string& prefix) const {
  for (const auto& layer : layers_) layer->AddPrefix(prefix);
}

void Children::ForgetStates(bool training) const {
  for (const auto& layer : layers_) layer->ForgetStates(training);
}

bool Children::CarriesStates() const {
  return std::ranges::any_of(layers_, [](const auto& layer) { return layer->CarriesStates(); });
}

void Children::AddStatesTo(CarriedStates* states) const {
  for (const auto& layer : layers_) layer->AddStatesTo(states);
}

void Children::SetStates(const CarriedStates& states) const {
  for (const auto& layer : layers_) layer->SetStates(states);
}

ParameterDict Children::CollectParams() const {
  ParameterDict parameters;
  for (const auto& layer : layers_) parameters.Update(layer->CollectParams());
  return parameters;
}

Lambda::Lambda(Function function) : function_(std::move(function)) {
  if (!function_) ThrowInvalid("Lambda: there is no function");
}

NDArray Lambda::Forward(const NDArray& x) {
  if (!function_) ThrowInvalid(StrCat(Describe(), " has been moved from: it has no function"));
  return function_(x);
}

NDArray Sequential::Forward(const NDArray& x) {
  return ForwardRange(children_, 0, size(), x);
}

void Sequential::AddPrefix(const std::string& prefix) {
  Layer::AddPrefix(prefix);
  children_.AddPrefix(prefix);
}

NDArray Concurrent::Forward(const NDArray& x) {
  if (size() == 0) ThrowInvalid(StrCat(Describe(), " has no layers"));
  InlineVector<NDArray, 4> parts;
  for (const auto& layer : children_) parts.push_back(layer->Forward(x));
  const Shape& first = parts[0].shape();
  for (const NDArray& part : parts) {
    bool fits = part.shape().ndim() == first.ndim() && axis_ < first.ndim();
    for (size_t axis = 0; fits && axis < first.ndim(); ++axis)
      fits = axis == axis_ || part.shape()[axis] == first[axis];
    if (!fits) {
      ThrowInvalid(StrCat(Describe(), " expects its layers' outputs to differ at axis ", axis_,
                          " only and got ", first, " and ", part.shape()));
    }
  }
  return ops::Concat(parts, axis_);
}

void Concurrent::AddPrefix(const std::string& prefix) {
  Layer::AddPrefix(prefix);
  children_.AddPrefix(prefix);
}

NDArray Residual::Run(const NDArray& x, bool relu) {
  if (children_.size() == 0) ThrowInvalid(StrCat(Describe(), " has been moved from: it has no body"));
  // A body that ends with batch normalisation adds the shortcut in its last pass.
  auto* body = dynamic_cast<Sequential*>(&children_[0]);
  const size_t layers = body == nullptr ? 0 : body->size();
  auto* norm = relu && layers > 0 ? dynamic_cast<BatchNorm*>(&(*body)[layers - 1]) : nullptr;
  const NDArray y = norm == nullptr ? children_[0](x) : ForwardRange(body->children(), 0, layers - 1, x);
  const NDArray shortcut = children_.size() > 1 ? children_[1](x) : x;
  if (y.shape() != shortcut.shape()) {
    ThrowInvalid(StrCat(Describe(), " expects body and shortcut of the same shape and got ", y.shape(),
                        " and ", shortcut.shape()));
  }
  if (norm != nullptr) return norm->ForwardRelu(y, shortcut);
  return relu ? ops::Relu(y + shortcut) : y + shortcut;
}

void Residual::AddPrefix(const std::string& prefix) {
  Layer::AddPrefix(prefix);
  children_.AddPrefix(prefix);
}

}  // namespace sluice::nn

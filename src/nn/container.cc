#include "sluice/nn/container.h"

#include <algorithm>

#include "nn/require.h"

namespace sluice::nn {

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

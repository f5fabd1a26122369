#include "sluice/nn/layer.h"

#include <algorithm>

#include "autograd/ops.h"
#include "nn/require.h"

namespace sluice::nn {

void Layer::AddPrefix(const std::string& prefix) {
  name_ = name_.empty() ? prefix : StrCat(prefix, ".", name_);
}

void ParameterLayer::AddParameter(std::string name, const Shape& shape, ParameterOptions options) {
  auto parameter = std::make_shared<Parameter>(name, shape, std::move(options));
  slots_.push_back({std::move(name), std::move(parameter)});
}

void ParameterLayer::ThrowNoParameter(size_t i) const {
  throw Error(ErrorCode::kFailedPrecondition,
              StrCat(Describe(), " has ", slots_.size(), " parameters and no parameter ", i,
                     slots_.empty() ? ": it has been moved from" : ""));
}

ParameterDict ParameterLayer::CollectParams() const {
  ParameterDict parameters;
  for (const Slot& slot : slots_) parameters.Add(slot.parameter);
  return parameters;
}

void ParameterLayer::AddPrefix(const std::string& prefix) {
  Layer::AddPrefix(prefix);
  for (const Slot& slot : slots_) {
    if (!slot.shared) slot.parameter->SetName(StrCat(prefix, ".", slot.parameter->name()));
  }
}

void ParameterLayer::Share(Slot& slot, std::shared_ptr<Parameter> parameter) {
  const std::string what = StrCat(Describe(), ": its parameter '", slot.name, "'");
  if (parameter == nullptr) ThrowInvalid(StrCat(what, " cannot be shared: there is no parameter to share"));
  if (slot.parameter->initialized() || slot.parameter->deferred()) {
    throw Error(ErrorCode::kFailedPrecondition,
                StrCat(what, " is initialised already; share '", parameter->name(), "' before Initialize"));
  }
  const Shape &own = slot.parameter->shape(), &given = parameter->shape();
  bool fits = own.ndim() == given.ndim() && slot.parameter->dtype() == parameter->dtype();
  for (size_t axis = 0; fits && axis < own.ndim(); ++axis)
    fits = own[axis] == 0 || given[axis] == 0 || own[axis] == given[axis];  // 0: not known yet
  if (!fits) {
    ThrowInvalid(StrCat(what, " is ", Name(slot.parameter->dtype()), " ", own, " and cannot be '",
                        parameter->name(), "' of ", Name(parameter->dtype()), " ", given));
  }
  parameter->SetShape(own);
  slot.parameter = std::move(parameter);
  slot.shared = true;
}

void ParameterLayer::ShareParameter(std::string_view name, std::shared_ptr<Parameter> parameter) {
  const auto found =
      std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) { return slot.name == name; });
  if (found == slots_.end()) {
    std::vector<std::string> names;
    for (const Slot& slot : slots_) names.push_back(slot.name);
    throw Error(ErrorCode::kNotFound,
                StrCat(Describe(), " has no parameter '", name, "'; it has ", StrJoin(names)));
  }
  Share(*found, std::move(parameter));
}

void ParameterLayer::ShareParameters(const ParameterLayer& other) {
  if (slots_.size() != other.slots_.size() || kind() != other.kind()) {
    ThrowInvalid(StrCat(Describe(), " with ", slots_.size(), " parameters cannot share those of ",
                        other.Describe(), ", which has ", other.slots_.size()));
  }
  for (size_t i = 0; i < slots_.size(); ++i) Share(slots_[i], other.slots_[i].parameter);
}

WeightedLayer::WeightedLayer(const Shape& weight_shape, int64_t bias_size, bool use_bias) {
  AddParameter("weight", weight_shape);
  if (!use_bias) return;
  AddParameter("bias", Shape{bias_size}, ParameterOptions{.wd_mult = 0, .init = std::make_shared<Zero>()});
}

NDArray WeightedLayer::WeightFor(const NDArray& x, const Shape& weight_shape) {
  RequireArrayFor(Describe(), "its input", x);
  weight().SetShape(weight_shape);
  return ops::InFloat32(weight().data(x.context()));
}

NDArray WeightedLayer::BiasFor(const NDArray& x) {
  RequireArrayFor(Describe(), "its input", x);
  return bias() != nullptr ? ops::InFloat32(bias()->data(x.context())) : NDArray();
}

}  // namespace sluice::nn

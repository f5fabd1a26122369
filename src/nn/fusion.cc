#include "nn/fusion.h"

#include "sluice/nn/conv.h"
#include "sluice/nn/pool.h"

namespace sluice::nn {
namespace {

bool NeverFalls(const Activation& activation) {
  using F = Activation::Function;
  return activation.function() != F::kGelu && activation.function() != F::kSilu;
}

template <typename L>
L* As(const Children& layers, size_t i) {
  return i < layers.size() ? dynamic_cast<L*>(&layers[i]) : nullptr;
}

bool IsMaxPool(const Children& layers, size_t i) {
  return As<MaxPool2D>(layers, i) != nullptr || As<GlobalMaxPool2D>(layers, i) != nullptr;
}

}  // namespace

ActivationShape ToOps(const Activation& activation) {
  using F = Activation::Function;
  switch (activation.function()) {
    case F::kRelu:
      return {ActivationKind::kRelu};
    case F::kTanh:
      return {ActivationKind::kTanh};
    case F::kSigmoid:
      return {ActivationKind::kSigmoid};
    case F::kLeakyRelu:
      return {ActivationKind::kLeakyRelu, activation.alpha()};
    case F::kElu:
      return {ActivationKind::kElu, activation.alpha()};
    case F::kGelu:
      return {ActivationKind::kGelu};
    case F::kSoftplus:
      return {ActivationKind::kSoftplus};
    case F::kSilu:
      break;
  }
  return {ActivationKind::kSilu};
}

size_t ForwardFrom(const Children& layers, size_t i, NDArray* y) {
  auto* activation = As<Activation>(layers, i);
  if (activation != nullptr && NeverFalls(*activation) && IsMaxPool(layers, i + 1)) {
    *y = activation->Forward(layers[i + 1].Forward(*y));
    return 2;
  }
  auto* convolution = As<Conv2D>(layers, i);
  activation = As<Activation>(layers, i + 1);
  const bool pool_first = activation != nullptr && NeverFalls(*activation) && IsMaxPool(layers, i + 2);
  if (convolution != nullptr && activation != nullptr && !pool_first && ToOps(*activation).FromOutput()) {
    *y = convolution->ForwardActivated(*y, *activation);
    return 2;
  }
  *y = layers[i].Forward(*y);
  return 1;
}

}  // namespace sluice::nn

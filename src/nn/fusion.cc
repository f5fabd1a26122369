#include "nn/fusion.h"

#include "nn/activation.h"
#include "sluice/nn/conv.h"
#include "sluice/nn/norm.h"
#include "sluice/nn/pool.h"

namespace sluice::nn {
namespace {

// The first `count` layers of `all`: those that run. The layers after them are not looked at.
struct Layers {
  const Children& all;
  size_t count;
};

template <typename L>
L* As(const Layers& layers, size_t i) {
  return i < layers.count ? dynamic_cast<L*>(&layers.all[i]) : nullptr;
}

bool IsMaxPool(const Layers& layers, size_t i) {
  return As<MaxPool2D>(layers, i) != nullptr || As<GlobalMaxPool2D>(layers, i) != nullptr;
}

// Runs layer i and the activation after it on y if that is one pass. Returns whether it did.
bool ForwardActivated(const Layers& layers, size_t i, Activation& activation, NDArray* y) {
  if (auto* convolution = As<Conv2D>(layers, i); convolution != nullptr) {
    const bool pool_first = IsMonotone(activation) && IsMaxPool(layers, i + 2);
    if (pool_first || !ToOps(activation).FromOutput()) return false;
    *y = convolution->ForwardActivated(*y, activation);
    return true;
  }
  if (activation.function() != Activation::Function::kRelu) return false;
  auto* norm = As<BatchNorm>(layers, i);
  auto* residual = As<Residual>(layers, i);
  if (norm != nullptr) *y = norm->ForwardRelu(*y);
  if (residual != nullptr) *y = residual->ForwardRelu(*y);
  return norm != nullptr || residual != nullptr;
}

// Runs layer i, and the one after it if both are one pass, on y. Returns how many layers it has run.
size_t ForwardFrom(const Layers& layers, size_t i, NDArray* y) {
  auto* activation = As<Activation>(layers, i);
  if (activation != nullptr && IsMonotone(*activation) && IsMaxPool(layers, i + 1)) {
    *y = activation->Forward(layers.all[i + 1].Forward(*y));
    return 2;
  }
  activation = As<Activation>(layers, i + 1);
  if (activation != nullptr && ForwardActivated(layers, i, *activation, y)) return 2;
  *y = layers.all[i].Forward(*y);
  return 1;
}

}  // namespace

NDArray ForwardRange(const Children& layers, size_t begin, size_t end, const NDArray& x) {
  NDArray y = x;
  for (size_t i = begin; i < end;) i += ForwardFrom({layers, end}, i, &y);
  return y;
}

}  // namespace sluice::nn

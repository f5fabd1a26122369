#include <cmath>

#include "autograd/ops/common.h"

namespace sluice::ops {
namespace {

NDArray Activate(std::string_view what, const ActivationShape& shape, const NDArray& x) {
  RequireTogether(what, {&x});
  NDArray out = NDArray::Empty(x.shape(), x.context());
  LaunchOn(what, x.context(), {x}, {out},
           [shape, px = DataOf(x), po = DataOf(out), n = x.size()](Kernels& k) {
             k.Activation(shape, px, po, n);
           });
  Record(out, {&x},
         [shape, kept = shape.FromOutput() ? out : x](const NDArray& grad, std::vector<NDArray>& to) {
           Target(to[0], kept.shape(), kept.context());
           LaunchOn("activation backward", kept.context(), {kept, grad}, {to[0]},
                    [shape, pk = DataOf(kept), pg = DataOf(grad), gx = DataOf(to[0]),
                     n = kept.size()](Kernels& k) { k.ActivationBackward(shape, pk, pg, gx, n); });
         });
  return out;
}

float RequireAlpha(std::string_view what, float alpha) {
  if (!(alpha >= 0 && alpha < HUGE_VALF))
    Refuse(what, StrCat("alpha is ", alpha, "; it must be a number that is at least 0"));
  return alpha;
}

}  // namespace

NDArray Relu(const NDArray& x) {
  return Activate("relu", {ActivationKind::kRelu}, x);
}
NDArray Tanh(const NDArray& x) {
  return Activate("tanh", {ActivationKind::kTanh}, x);
}
NDArray Sigmoid(const NDArray& x) {
  return Activate("sigmoid", {ActivationKind::kSigmoid}, x);
}
NDArray LeakyRelu(const NDArray& x, float alpha) {
  return Activate("leaky_relu", {ActivationKind::kLeakyRelu, RequireAlpha("leaky_relu", alpha)}, x);
}
NDArray Elu(const NDArray& x, float alpha) {
  return Activate("elu", {ActivationKind::kElu, RequireAlpha("elu", alpha)}, x);
}
NDArray Gelu(const NDArray& x) {
  return Activate("gelu", {ActivationKind::kGelu}, x);
}
NDArray Softplus(const NDArray& x) {
  return Activate("softplus", {ActivationKind::kSoftplus}, x);
}
NDArray Silu(const NDArray& x) {
  return Activate("silu", {ActivationKind::kSilu}, x);
}

}  // namespace sluice::ops

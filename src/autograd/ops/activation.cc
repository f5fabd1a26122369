#include <cmath>

#include "autograd/ops/common.h"

namespace sluice::ops {
namespace {

NDArray Activate(std::string_view what, const ActivationShape& shape, const NDArray& x) {
  RequireTogether(what, {&x});
  const ImageLayout layout = LayoutOf(x);
  NDArray out = EmptyIn(layout, x.shape(), x.context());
  LaunchOn(what, x.context(), {x}, {out},
           [shape, px = ImageDataOf(x), po = ImageDataOf(out), n = x.size()](Kernels& k) {
             k.Activation({.shape = shape, .x = px, .out = po, .n = n});
           });
  Record(out, {&x}, {what, {shape.FromOutput() ? &out : &x}},
         [shape, kept = shape.FromOutput() ? out : x](const NDArray& grad, std::vector<NDArray>& to) {
           ActivateBackward(shape, kept, grad, to[0]);
         });
  return out;
}

float RequireAlpha(std::string_view what, float alpha) {
  if (!(alpha >= 0 && alpha < HUGE_VALF))
    ThrowInvalid(what, StrCat("alpha is ", alpha, "; it must be a number that is at least 0"));
  return alpha;
}

constexpr std::string_view kNames[] = {"relu",     "tanh", "sigmoid",  "leaky_relu",  "elu", "gelu",
                                       "softplus", "silu", "softsign", "log_sigmoid", "mish"};

}  // namespace

void ActivateBackward(const ActivationShape& shape, const NDArray& kept, const NDArray& grad, NDArray& to) {
  const ImageLayout layout = LayoutOf(kept);
  const NDArray g = InLayout(grad, layout);
  ImageTarget target(to, layout, kept.shape(), kept.context());
  LaunchOn(
      "activation backward", kept.context(), {kept, g}, {target.images()},
      [shape, pk = ImageDataOf(kept), pg = ImageDataOf(g), gx = target.data(), n = kept.size()](Kernels& k) {
        k.ActivationBackward({.shape = shape, .kept = pk, .grad = pg, .grad_x = gx, .n = n});
      });
  target.Finish();
}

NDArray Activation(const ActivationShape& shape, const NDArray& x) {
  const std::string_view name = kNames[static_cast<size_t>(shape.kind)];
  RequireAlpha(name, shape.alpha);
  return Activate(name, shape, x);
}
NDArray Relu(const NDArray& x) {
  return Activation({ActivationKind::kRelu}, x);
}
NDArray Tanh(const NDArray& x) {
  return Activation({ActivationKind::kTanh}, x);
}
NDArray Sigmoid(const NDArray& x) {
  return Activation({ActivationKind::kSigmoid}, x);
}
NDArray LeakyRelu(const NDArray& x, float alpha) {
  return Activation({ActivationKind::kLeakyRelu, alpha}, x);
}
NDArray Elu(const NDArray& x, float alpha) {
  return Activation({ActivationKind::kElu, alpha}, x);
}
NDArray Gelu(const NDArray& x) {
  return Activation({ActivationKind::kGelu}, x);
}
NDArray Softplus(const NDArray& x) {
  return Activation({ActivationKind::kSoftplus}, x);
}
NDArray Silu(const NDArray& x) {
  return Activation({ActivationKind::kSilu}, x);
}
NDArray Softsign(const NDArray& x) {
  return Activation({ActivationKind::kSoftsign}, x);
}
NDArray LogSigmoid(const NDArray& x) {
  return Activation({ActivationKind::kLogSigmoid}, x);
}
NDArray Mish(const NDArray& x) {
  return Activation({ActivationKind::kMish}, x);
}

}  // namespace sluice::ops

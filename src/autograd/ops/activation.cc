#include "autograd/ops/common.h"

namespace sluice::ops {

namespace {

NDArray Activate(std::string_view what, ActivationKind kind, const NDArray& x) {
  RequireTogether(what, {&x});
  NDArray out = NDArray::Empty(x.shape(), x.context());
  LaunchOn(what, x.context(), {x}, {out}, [kind, px = DataOf(x), po = DataOf(out), n = x.size()](Kernels& k) {
    k.Activation(kind, px, po, n);
  });
  Record(out, {&x}, [kind, y = out](const NDArray& grad, std::vector<NDArray>& to) {
    Target(to[0], y.shape(), y.context());
    LaunchOn("activation backward", y.context(), {y, grad}, {to[0]},
             [kind, py = DataOf(y), pg = DataOf(grad), gx = DataOf(to[0]), n = y.size()](Kernels& k) {
               k.ActivationBackward(kind, py, pg, gx, n);
             });
  });
  return out;
}

}  // namespace

NDArray Relu(const NDArray& x) {
  return Activate("relu", ActivationKind::kRelu, x);
}
NDArray Tanh(const NDArray& x) {
  return Activate("tanh", ActivationKind::kTanh, x);
}
NDArray Sigmoid(const NDArray& x) {
  return Activate("sigmoid", ActivationKind::kSigmoid, x);
}

}  // namespace sluice::ops

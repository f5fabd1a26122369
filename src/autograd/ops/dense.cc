#include "autograd/ops/common.h"

namespace sluice::ops {

NDArray Dense(const NDArray& x, const NDArray& weight, const NDArray& bias) {
  return Dense(x, weight, bias, Arithmetic::kFloat32);
}

NDArray Dense(const NDArray& x, const NDArray& weight, const NDArray& bias, Arithmetic arithmetic) {
  RequireTogether("Dense", {&x, &weight}, {&bias});
  if (x.shape().ndim() != 2 || weight.shape().ndim() != 2 || x.shape()[1] != weight.shape()[1] ||
      (bias.valid() && bias.shape() != Shape({weight.shape()[0]}))) {
    ThrowInvalid("Dense", StrCat("x ", x.shape(), " and weight ", weight.shape(), " do not fit"));
  }
  const DenseShape shape{x.shape()[0], x.shape()[1], weight.shape()[0], arithmetic};
  const Context context = x.context();
  NDArray out = NDArray::Empty({shape.rows, shape.units}, context);
  LaunchOn("Dense", context, {x, weight, bias}, {out},
           [shape, px = DataOf(x), pw = DataOf(weight), pb = DataOrNull(bias), po = DataOf(out)](Kernels& k) {
             k.Dense({.shape = shape, .x = px, .weight = pw, .bias = pb, .out = po});
           });
  Record(out, {&x, &weight, &bias}, {"Dense", {IfWanted(weight, x), IfWanted(x, weight)}},
         [x, weight, bias, shape, context](const NDArray& grad, std::vector<NDArray>& to) {
           if (Wanted(x)) Target(to[0], x.shape(), context);
           if (Wanted(weight)) Target(to[1], weight.shape(), context);
           if (Wanted(bias)) Target(to[2], bias.shape(), context);
           // The weights' gradients come first: they are pushed while the rest of backward runs.
           LaunchOn(
               "Dense backward (weights)", context, {x, weight, grad}, {to[1], to[2]},
               [shape, px = DataOf(x), pg = DataOf(grad), gw = DataOrNull(to[1]),
                gb = DataOrNull(to[2])](Kernels& k) {
                 k.DenseBackward({.shape = shape, .x = px, .grad = pg, .grad_weight = gw, .grad_bias = gb});
               });
           if (!to[0].valid()) return;
           LaunchOn("Dense backward", context, {x, weight, grad}, {to[0]},
                    [shape, pw = DataOf(weight), pg = DataOf(grad), gx = DataOf(to[0])](Kernels& k) {
                      k.DenseBackward({.shape = shape, .weight = pw, .grad = pg, .grad_x = gx});
                    });
         });
  return out;
}

}  // namespace sluice::ops

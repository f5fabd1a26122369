#include "autograd/ops/common.h"

namespace sluice::ops {

NDArray Dense(const NDArray& x, const NDArray& weight, const NDArray& bias) {
  RequireTogether("Dense", {&x, &weight, &bias});
  if (x.shape().ndim() != 2 || weight.shape().ndim() != 2 || x.shape()[1] != weight.shape()[1] ||
      (bias.valid() && bias.shape() != Shape({weight.shape()[0]}))) {
    Refuse("Dense", StrCat("x ", x.shape(), " and weight ", weight.shape(), " do not fit"));
  }
  const int64_t rows = x.shape()[0], in = x.shape()[1], units = weight.shape()[0];
  const Context context = x.context();
  NDArray out = NDArray::Empty({rows, units}, context);
  LaunchOn("Dense", context, {x, weight, bias}, {out},
           [px = DataOf(x), pw = DataOf(weight), pb = DataOrNull(bias), po = DataOf(out), rows, in,
            units](Kernels& k) { k.Dense(px, pw, pb, po, rows, in, units); });
  Record(out, {&x, &weight, &bias},
         [x, weight, bias, rows, in, units, context](const NDArray& grad, std::vector<NDArray>& to) {
           if (Wanted(x)) Target(to[0], x.shape(), context);
           if (Wanted(weight)) Target(to[1], weight.shape(), context);
           if (Wanted(bias)) Target(to[2], bias.shape(), context);
           // The weights' gradients first: they are pushed while the rest of backward runs.
           LaunchOn("Dense backward (weights)", context, {x, weight, grad}, {to[1], to[2]},
                    [px = DataOf(x), pw = DataOf(weight), pg = DataOf(grad), gw = DataOrNull(to[1]),
                     gb = DataOrNull(to[2]), rows, in,
                     units](Kernels& k) { k.DenseBackward(px, pw, pg, nullptr, gw, gb, rows, in, units); });
           if (!to[0].valid()) return;
           LaunchOn(
               "Dense backward", context, {x, weight, grad}, {to[0]},
               [px = DataOf(x), pw = DataOf(weight), pg = DataOf(grad), gx = DataOf(to[0]), rows, in,
                units](Kernels& k) { k.DenseBackward(px, pw, pg, gx, nullptr, nullptr, rows, in, units); });
         });
  return out;
}

}  // namespace sluice::ops

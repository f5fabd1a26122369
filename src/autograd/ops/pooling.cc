#include "autograd/ops/window.h"

namespace sluice::ops {

namespace {

NDArray Pool(std::string_view what, PoolKind kind, const NDArray& x, const Window2D& w) {
  RequireTogether(what, {&x});
  const Shape& xs = x.shape();
  if (xs.ndim() != 4) Refuse(what, StrCat("needs [n, c, h, w] and got ", xs));
  const PoolShape shape{
      xs[0], xs[1], xs[2],
      xs[3], xs[1], {w.height, w.width, w.stride_height, w.stride_width, w.pad_height, w.pad_width}};
  RequireWindow(what, xs, shape.window);
  if (w.pad_height >= w.height || w.pad_width >= w.width) {  // some windows would hold padding alone
    Refuse(what, StrCat("the padding ", w.pad_height, "x", w.pad_width, " must be smaller than the window ",
                        w.height, "x", w.width));
  }
  NDArray out = NDArray::Empty({xs[0], xs[1], shape.out_height(), shape.out_width()}, x.context());
  NDArray where =
      kind == PoolKind::kMax ? NDArray::Empty(out.shape(), x.context(), DType::kInt32) : NDArray();
  int32_t* place = where.valid() ? DataOf<int32_t>(where) : nullptr;
  LaunchOn(what, x.context(), {x}, {out, where},
           [=, px = DataOf(x), po = DataOf(out)](Kernels& k) { k.Pool(kind, shape, px, po, place); });
  Record(
      out, {&x},
      [kind, shape, where, place, xs, context = x.context()](const NDArray& grad, std::vector<NDArray>& to) {
        Target(to[0], xs, context);
        LaunchOn("pool backward", context, {grad, where}, {to[0]},
                 [=, pg = DataOf(grad), gx = DataOf(to[0])](Kernels& k) {
                   k.PoolBackward(kind, shape, pg, place, gx);
                 });
      });
  return out;
}

}  // namespace

NDArray MaxPool2D(const NDArray& x, const Window2D& window) {
  return Pool("MaxPool2D", PoolKind::kMax, x, window);
}
NDArray AvgPool2D(const NDArray& x, const Window2D& window) {
  return Pool("AvgPool2D", PoolKind::kAverage, x, window);
}

}  // namespace sluice::ops

#include "autograd/ops/window.h"

namespace sluice::ops {

namespace {

NDArray Pool(std::string_view what, PoolKind kind, const NDArray& x, const Window2D& w) {
  RequireTogether(what, {&x});
  const Shape& xs = x.shape();
  if (xs.ndim() != 4) ThrowInvalid(what, StrCat("needs [n, c, h, w] and got ", xs));
  const PoolShape shape{
      xs[0], xs[1], xs[2],
      xs[3], xs[1], {w.height, w.width, w.stride_height, w.stride_width, w.pad_height, w.pad_width}};
  RequireWindow(what, xs, shape.window);
  if (w.pad_height >= w.height || w.pad_width >= w.width) {  // some windows would have only padding
    ThrowInvalid(what, StrCat("the padding ", w.pad_height, "x", w.pad_width,
                              " must be smaller than the window ", w.height, "x", w.width));
  }
  const ImageLayout layout = LayoutOf(x);
  NDArray out = EmptyIn(layout, {xs[0], xs[1], shape.out_height(), shape.out_width()}, x.context());
  NDArray where =
      kind == PoolKind::kMax ? NDArray::Empty(out.shape(), x.context(), DType::kInt32) : NDArray();
  const Data<int32_t> place = where.valid() ? DataOf<int32_t>(where) : nullptr;
  LaunchOn(what, x.context(), {x}, {out, where}, [=, px = ImageDataOf(x), po = ImageDataOf(out)](Kernels& k) {
    k.Pool({.kind = kind, .layout = layout, .shape = shape, .x = px, .out = po, .where = place});
  });
  Record(
      out, {&x},
      [kind, layout, shape, where, place, xs, context = x.context()](const NDArray& out_grad,
                                                                     std::vector<NDArray>& to) {
        const NDArray grad = InLayout(out_grad, layout);
        ImageTarget target(to[0], layout, xs, context);
        LaunchOn(
            "pool backward", context, {grad, where}, {target.images()},
            [=, pg = ImageDataOf(grad), gx = target.data()](Kernels& k) {
              k.PoolBackward(
                  {.kind = kind, .layout = layout, .shape = shape, .grad = pg, .where = place, .grad_x = gx});
            });
        target.Finish();
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

#include "autograd/ops/window.h"

namespace sluice::ops {
namespace {

WindowShape ToShape(const Window2D& w, const Shape& weight) {
  return {weight[2],    weight[3],   w.stride_height,   w.stride_width,
          w.pad_height, w.pad_width, w.dilation_height, w.dilation_width};
}

// x [n, channels, h, w], weight [parts, channels of a group, kh, kw].
void RequireConv(std::string_view what, const NDArray& x, const NDArray& weight, const NDArray& bias,
                 int64_t groups, bool transposed) {
  RequireTogether(what, {&x, &weight, &bias});
  const Shape &xs = x.shape(), &ws = weight.shape();
  if (groups < 1) Refuse(what, StrCat("the number of groups is ", groups, "; it must be at least 1"));
  const bool fits = xs.ndim() == 4 && ws.ndim() == 4 && ws[0] % groups == 0 &&
                    (transposed ? xs[1] == ws[0] : xs[1] == ws[1] * groups) &&
                    (!bias.valid() || bias.shape() == Shape({transposed ? ws[1] * groups : ws[0]}));
  if (!fits) {
    Refuse(what, StrCat("x ", xs, " and weight ", ws,
                        groups == 1 ? " do not fit" : StrCat(" do not fit in ", groups, " groups")));
  }
}

}  // namespace

NDArray Conv2D(const NDArray& x, const NDArray& weight, const NDArray& bias, const Window2D& w,
               int64_t groups) {
  RequireConv("Conv2D", x, weight, bias, groups, /*transposed=*/false);
  const Shape &xs = x.shape(), &ws = weight.shape();
  const ConvShape shape{xs[0], xs[1], xs[2], xs[3], ws[0], ToShape(w, ws), groups};
  RequireWindow("Conv2D", xs, shape.window);
  const Context context = x.context();
  NDArray out = NDArray::Empty({xs[0], ws[0], shape.out_height(), shape.out_width()}, context);
  LaunchOn("Conv2D", context, {x, weight, bias}, {out},
           [shape, px = DataOf(x), pw = DataOf(weight), pb = DataOrNull(bias), po = DataOf(out)](Kernels& k) {
             k.Conv(shape, px, pw, pb, po);
           });
  Record(out, {&x, &weight, &bias},
         [x, weight, bias, shape, context](const NDArray& grad, std::vector<NDArray>& to) {
           if (Wanted(x)) Target(to[0], x.shape(), context);
           if (Wanted(weight)) Target(to[1], weight.shape(), context);
           if (Wanted(bias)) Target(to[2], bias.shape(), context);
           LaunchOn("Conv2D backward", context, {x, weight, grad}, {to[0], to[1], to[2]},
                    [shape, px = DataOf(x), pw = DataOf(weight), pg = DataOf(grad), gx = DataOrNull(to[0]),
                     gw = DataOrNull(to[1]),
                     gb = DataOrNull(to[2])](Kernels& k) { k.ConvBackward(shape, px, pw, pg, gx, gw, gb); });
         });
  return out;
}

// Forward and backward are those of the convolution from `out` to `x`, exchanged.
NDArray Conv2DTranspose(const NDArray& x, const NDArray& weight, const NDArray& bias, const Window2D& w,
                        int64_t groups, int64_t out_height, int64_t out_width) {
  constexpr std::string_view kWhat = "Conv2DTranspose";
  RequireConv(kWhat, x, weight, bias, groups, /*transposed=*/true);
  const Shape &xs = x.shape(), &ws = weight.shape();
  const Shape os = {xs[0], ws[1] * groups, out_height, out_width};
  const ConvShape shape{os[0], os[1], os[2], os[3], xs[1], ToShape(w, ws), groups};
  RequireWindow(kWhat, os, shape.window);
  if (shape.out_height() != xs[2] || shape.out_width() != xs[3])
    Refuse(kWhat, StrCat("x ", xs, " does not become ", os, " with this window"));
  const Context context = x.context();
  NDArray out = NDArray::Empty(os, context);
  LaunchOn(kWhat, context, {x, weight, bias}, {out},
           [shape, px = DataOf(x), pw = DataOf(weight), pb = DataOrNull(bias), po = DataOf(out)](Kernels& k) {
             k.ConvBackward(shape, nullptr, pw, px, po, nullptr, nullptr);
             if (pb != nullptr) k.AddToChannels(shape.in_planes(), pb, po);
           });
  Record(out, {&x, &weight, &bias},
         [x, weight, bias, shape, context](const NDArray& grad, std::vector<NDArray>& to) {
           if (Wanted(x)) Target(to[0], x.shape(), context);
           if (Wanted(weight)) Target(to[1], weight.shape(), context);
           if (Wanted(bias)) Target(to[2], bias.shape(), context);
           LaunchOn("Conv2DTranspose backward", context, {x, weight, grad}, {to[0], to[1], to[2]},
                    [shape, px = DataOf(x), pw = DataOf(weight), pg = DataOf(grad), gx = DataOrNull(to[0]),
                     gw = DataOrNull(to[1]), gb = DataOrNull(to[2])](Kernels& k) {
                      if (gw != nullptr) k.ConvBackward(shape, pg, pw, px, nullptr, gw, nullptr);
                      if (gb != nullptr) k.SumOfChannels(shape.in_planes(), pg, gb);
                      if (gx != nullptr) k.Conv(shape, pg, pw, nullptr, gx);
                    });
         });
  return out;
}

}  // namespace sluice::ops

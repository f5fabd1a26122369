// Convolutions and their transposes on images [n, c, h, w], in memory with the channels last.
//
// An input in another layout is reordered once, and the backward keeps the reordered copy. The weights' and
// the input's gradients are launched separately, the weights' first. Layers and programs call these
// functions; each call is recorded on the calling thread's tape, and its kernels run on the context's stream.
#include "autograd/ops/window.h"

namespace sluice::ops {
namespace {

WindowShape ToShape(const Window2D& w, const Shape& weight) {
  return {weight[2],    weight[3],   w.stride_height,   w.stride_width,
          w.pad_height, w.pad_width, w.dilation_height, w.dilation_width};
}

// Throws unless x [n, channels, h, w], weight [outputs, channels of a group, kh, kw] (transposed: [channels,
// outputs of a group, kh, kw]) and bias [outputs] fit each other.
void RequireConv(std::string_view what, const NDArray& x, const NDArray& weight, const NDArray& bias,
                 int64_t groups, bool transposed) {
  RequireTogether(what, {&x, &weight}, {&bias});
  const Shape &xs = x.shape(), &ws = weight.shape();
  if (groups < 1) ThrowInvalid(what, StrCat("the number of groups is ", groups, "; it must be at least 1"));
  const bool fits = xs.ndim() == 4 && ws.ndim() == 4 && ws[0] % groups == 0 &&
                    (transposed ? xs[1] == ws[0] : xs[1] == ws[1] * groups) &&
                    (!bias.valid() || bias.shape() == Shape({transposed ? ws[1] * groups : ws[0]}));
  if (!fits) {
    ThrowInvalid(what, StrCat("x ", xs, " and weight ", ws,
                              groups == 1 ? " do not fit" : StrCat(" do not fit in ", groups, " groups")));
  }
}

constexpr auto kLast = ImageLayout::kChannelsLast;

void Conv2DBackward(const ConvShape& shape, const NDArray& input, const NDArray& weight, const NDArray& bias,
                    const NDArray& grad, std::vector<NDArray>& to) {
  const Context context = weight.context();
  if (Wanted(weight)) Target(to[1], weight.shape(), context);
  if (Wanted(bias)) Target(to[2], bias.shape(), context);
  // The weights' gradients come first: they are pushed while the rest of backward runs.
  if (to[1].valid() || to[2].valid()) {
    const NDArray x = InLayout(input, kLast);
    LaunchOn(
        "Conv2D backward (weights)", context, {x, grad}, {to[1], to[2]},
        [shape, px = ImageDataOf(x), pg = ImageDataOf(grad), gw = DataOrNull(to[1]),
         gb = DataOrNull(to[2])](Kernels& k) {
          k.ConvolutionBackward({.shape = shape, .x = px, .grad = pg, .grad_weight = gw, .grad_bias = gb});
        });
  }
  if (!Wanted(input)) return;
  ImageTarget target(to[0], kLast, input.shape(), context);
  LaunchOn("Conv2D backward", context, {weight, grad}, {target.images()},
           [shape, pw = DataOf(weight), pg = ImageDataOf(grad), gx = target.data()](Kernels& k) {
             k.ConvolutionBackward({.shape = shape, .weight = pw, .grad = pg, .grad_x = gx});
           });
  target.Finish();
}

}  // namespace

NDArray Conv2D(const NDArray& x, const NDArray& weight, const NDArray& bias, const Window2D& window,
               int64_t groups) {
  return Conv2D(x, weight, bias, window, groups, std::nullopt, Arithmetic::kFloat32);
}

NDArray Conv2D(const NDArray& x, const NDArray& weight, const NDArray& bias, const Window2D& window,
               int64_t groups, const std::optional<ActivationShape>& after, Arithmetic arithmetic) {
  RequireConv("Conv2D", x, weight, bias, groups, /*transposed=*/false);
  const Shape &xs = x.shape(), &ws = weight.shape();
  const ConvShape shape{xs[0], xs[1], xs[2], xs[3], ws[0], ToShape(window, ws), groups, arithmetic};
  RequireWindow("Conv2D", xs, shape.window);
  NDArray x_last = InLayout(x, kLast);
  x_last.set_node(x.node());
  NDArray out = EmptyIn(kLast, {xs[0], ws[0], shape.out_height(), shape.out_width()}, x_last.context());
  LaunchOn("Conv2D", x_last.context(), {x_last, weight, bias}, {out},
           [shape, after, px = ImageDataOf(x_last), pw = DataOf(weight), pb = DataOrNull(bias),
            po = ImageDataOf(out)](Kernels& k) {
             k.Convolution({.shape = shape, .x = px, .weight = pw, .bias = pb, .after = after, .out = po});
           });
  Record(out, {&x_last, &weight, &bias},
         {"Conv2D", {IfWanted(weight, x_last), IfWanted(x_last, weight), after ? &out : nullptr}},
         [x_last, weight, bias, shape, after, kept = after ? out : NDArray()](const NDArray& grad,
                                                                              std::vector<NDArray>& to) {
           NDArray before = grad;
           if (after) ActivateBackward(*after, kept, grad, before = NDArray());
           Conv2DBackward(shape, x_last, weight, bias, InLayout(before, kLast), to);
         });
  return out;
}

NDArray Conv2DTranspose(const NDArray& x, const NDArray& weight, const NDArray& bias, const Window2D& window,
                        int64_t groups, int64_t out_height, int64_t out_width) {
  return Conv2DTranspose(x, weight, bias, window, groups, out_height, out_width, Arithmetic::kFloat32);
}

// Its forward is the backward of the convolution from `out` to `x`, and the other way round.
NDArray Conv2DTranspose(const NDArray& x, const NDArray& weight, const NDArray& bias, const Window2D& window,
                        int64_t groups, int64_t out_height, int64_t out_width, Arithmetic arithmetic) {
  constexpr std::string_view kWhat = "Conv2DTranspose";
  RequireConv(kWhat, x, weight, bias, groups, /*transposed=*/true);
  const Shape &xs = x.shape(), &ws = weight.shape();
  const Shape os = {xs[0], ws[1] * groups, out_height, out_width};
  const ConvShape shape{os[0], os[1], os[2], os[3], xs[1], ToShape(window, ws), groups, arithmetic};
  RequireWindow(kWhat, os, shape.window);
  if (shape.out_height() != xs[2] || shape.out_width() != xs[3])
    ThrowInvalid(kWhat, StrCat("x ", xs, " does not become ", os, " with this window"));
  const int64_t pixels = os[0] * os[2] * os[3];
  NDArray x_last = InLayout(x, kLast);
  x_last.set_node(x.node());
  NDArray out = EmptyIn(kLast, os, x_last.context());
  LaunchOn(kWhat, x_last.context(), {x_last, weight, bias}, {out},
           [=, px = ImageDataOf(x_last), pw = DataOf(weight), pb = DataOrNull(bias),
            po = ImageDataOf(out)](Kernels& k) {
             k.ConvolutionBackward({.shape = shape, .weight = pw, .grad = px, .grad_x = po});
             if (pb != nullptr)
               k.AddToRows({.values = pb, .out = po, .rows = pixels, .columns = shape.in_channels});
           });
  Record(out, {&x_last, &weight, &bias},
         {"Conv2DTranspose", {IfWanted(weight, x_last), IfWanted(x_last, weight)}},
         [=](const NDArray& out_grad, std::vector<NDArray>& to) {
           const Context context = weight.context();
           const NDArray grad = InLayout(out_grad, kLast);
           if (Wanted(weight)) Target(to[1], weight.shape(), context);
           if (Wanted(bias)) Target(to[2], bias.shape(), context);
           const NDArray kept = InLayout(x_last, kLast);
           LaunchOn("Conv2DTranspose backward (weights)", context, {kept, grad}, {to[1], to[2]},
                    [=, px = ImageDataOf(kept), pg = ImageDataOf(grad), gw = DataOrNull(to[1]),
                     gb = DataOrNull(to[2])](Kernels& k) {
                      if (gw != nullptr)
                        k.ConvolutionBackward({.shape = shape, .x = pg, .grad = px, .grad_weight = gw});
                      if (gb != nullptr)
                        k.SumOfRows({.a = pg, .sums = gb, .rows = pixels, .columns = shape.in_channels});
                    });
           if (!Wanted(x_last)) return;
           ImageTarget target(to[0], kLast, x_last.shape(), context);
           LaunchOn("Conv2DTranspose backward", context, {weight, grad}, {target.images()},
                    [=, pw = DataOf(weight), pg = ImageDataOf(grad), gx = target.data()](Kernels& k) {
                      k.Convolution({.shape = shape, .x = pg, .weight = pw, .out = gx});
                    });
           target.Finish();
         });
  return out;
}

}  // namespace sluice::ops

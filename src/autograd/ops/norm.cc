#include "autograd/ops/common.h"

namespace sluice::ops {
namespace {

void RequireFactors(std::string_view what, const Shape& x, int64_t size,
                    std::initializer_list<const NDArray*> factors) {
  for (const NDArray* factor : factors) {
    if (factor->valid() && factor->shape() != Shape({size}))
      Refuse(what, StrCat("x ", x, " needs factors and statistics of shape [", size, "] and got ",
                          factor->shape()));
  }
}

// With the channels last each pixel is a row of channels.
PlanesShape AsTheyLie(const PlanesShape& planes, ImageLayout layout) {
  if (layout == ImageLayout::kRowMajor) return planes;
  return {planes.batch * planes.size, planes.channels, 1};
}

}  // namespace

NDArray BatchNorm(const NDArray& x, const NDArray& gamma, const NDArray& beta, NDArray& running_mean,
                  NDArray& running_variance, const BatchNormOptions& options) {
  constexpr std::string_view kWhat = "BatchNorm";
  RequireTogether(kWhat, {&x, &gamma, &beta, &running_mean, &running_variance});
  const Shape& xs = x.shape();
  if (xs.ndim() < 2) Refuse(kWhat, StrCat("needs [n, channels, ...] and got ", xs));
  RequireFactors(kWhat, xs, xs[1], {&gamma, &beta, &running_mean, &running_variance});
  PlanesShape planes{xs[0], xs[1], 1};
  for (size_t axis = 2; axis < xs.ndim(); ++axis) planes.size *= xs[axis];
  if (planes.size == 0) planes.batch = 0;
  const ImageLayout layout = LayoutOf(x);
  const BatchNormShape shape{AsTheyLie(planes, layout), options.epsilon, options.momentum, options.training};
  const Context context = x.context();
  NDArray out = EmptyIn(layout, xs, context), mean = NDArray::Empty({xs[1]}, context),
          inverse = NDArray::Empty({xs[1]}, context);
  std::vector<NDArray> inputs = {x, gamma, beta, running_mean, running_variance},
                       outputs = {out, mean, inverse};
  if (shape.training) outputs.insert(outputs.end(), {running_mean, running_variance});
  LaunchOn(
      kWhat, context, std::move(inputs), std::move(outputs),
      [shape, px = ImageDataOf(x), pg = DataOrNull(gamma), pb = DataOrNull(beta), rm = DataOf(running_mean),
       rv = DataOf(running_variance), po = ImageDataOf(out), pm = DataOf(mean),
       pi = DataOf(inverse)](Kernels& k) { k.BatchNorm(shape, px, pg, pb, rm, rv, po, pm, pi); });
  Record(out, {&x, &gamma, &beta}, [=](const NDArray& out_grad, std::vector<NDArray>& to) {
    const ImageLayout now = LayoutOf(x);
    BatchNormShape s = shape;
    s.planes = AsTheyLie(planes, now);
    const NDArray grad = InLayout(out_grad, now);
    NDArray unwanted;
    ImageTarget target(Wanted(x) ? to[0] : unwanted, now, xs, context);
    if (Wanted(gamma)) Target(to[1], gamma.shape(), context);
    if (Wanted(beta)) Target(to[2], beta.shape(), context);
    LaunchOn("BatchNorm backward", context, {x, gamma, mean, inverse, grad}, {target.images(), to[1], to[2]},
             [s, px = ImageDataOf(x), pw = DataOrNull(gamma), pm = DataOf(mean), pi = DataOf(inverse),
              pg = ImageDataOf(grad), gx = target.data(), gw = DataOrNull(to[1]), gb = DataOrNull(to[2])](
                 Kernels& k) { k.BatchNormBackward(s, px, pw, pm, pi, pg, gx, gw, gb); });
    target.Finish();
  });
  return out;
}

NDArray LayerNorm(const NDArray& x, const NDArray& gamma, const NDArray& beta, float epsilon) {
  constexpr std::string_view kWhat = "LayerNorm";
  RequireTogether(kWhat, {&x, &gamma, &beta});
  const Shape& xs = x.shape();
  if (xs.ndim() < 1) Refuse(kWhat, "a scalar has no last axis");
  const int64_t columns = xs[xs.ndim() - 1], rows = columns == 0 ? 0 : x.size() / columns;
  RequireFactors(kWhat, xs, columns, {&gamma, &beta});
  const Context context = x.context();
  NDArray out = NDArray::Empty(xs, context), mean = NDArray::Empty({rows}, context),
          inverse = NDArray::Empty({rows}, context);
  LaunchOn(kWhat, context, {x, gamma, beta}, {out, mean, inverse},
           [epsilon, rows, columns, px = DataOf(x), pg = DataOrNull(gamma), pb = DataOrNull(beta),
            po = DataOf(out), pm = DataOf(mean), pi = DataOf(inverse)](Kernels& k) {
             k.LayerNorm(px, pg, pb, epsilon, po, pm, pi, rows, columns);
           });
  Record(
      out, {&x, &gamma, &beta},
      [x, gamma, beta, mean, inverse, rows, columns, context](const NDArray& grad, std::vector<NDArray>& to) {
        if (Wanted(x)) Target(to[0], x.shape(), context);
        if (Wanted(gamma)) Target(to[1], gamma.shape(), context);
        if (Wanted(beta)) Target(to[2], beta.shape(), context);
        LaunchOn("LayerNorm backward", context, {x, gamma, mean, inverse, grad}, {to[0], to[1], to[2]},
                 [rows, columns, px = DataOf(x), pw = DataOrNull(gamma), pm = DataOf(mean),
                  pi = DataOf(inverse), pg = DataOf(grad), gx = DataOrNull(to[0]), gw = DataOrNull(to[1]),
                  gb = DataOrNull(to[2])](Kernels& k) {
                   k.LayerNormBackward(px, pw, pm, pi, pg, gx, gw, gb, rows, columns);
                 });
      });
  return out;
}

}  // namespace sluice::ops

// Batch and layer normalisation.
//
// Forward keeps the mean and the inverse standard deviation that it used, so that backward need not
// compute them again. BatchNorm works with the channels last and writes the running statistics only
// when training; its forward kernel also adds the addend and applies the relu. Layers and programs call
// these functions; each call is recorded on the calling thread's tape.
#include "autograd/ops/common.h"

namespace sluice::ops {
namespace {

void RequireFactors(std::string_view what, const Shape& x, int64_t size,
                    std::initializer_list<const NDArray*> factors) {
  for (const NDArray* factor : factors) {
    if (factor->valid() && factor->shape() != Shape({size}))
      ThrowInvalid(what, StrCat("x ", x, " needs factors and statistics of shape [", size, "] and got ",
                                factor->shape()));
  }
}

// What the backward of a BatchNorm needs of its forward.
struct BatchNormRecord {
  NDArray input, gamma, beta, mean, inverse;
};

void BatchNormBackward(const BatchNormShape& shape, const BatchNormRecord& record, const NDArray& grad,
                       std::vector<NDArray>& to) {
  const auto& [input, gamma, beta, mean, inverse] = record;
  const Context context = input.context();
  const NDArray x = InLayout(input, ImageLayout::kChannelsLast);
  NDArray unwanted;
  ImageTarget target(Wanted(input) ? to[0] : unwanted, ImageLayout::kChannelsLast, input.shape(), context);
  if (Wanted(gamma)) Target(to[1], gamma.shape(), context);
  if (Wanted(beta)) Target(to[2], beta.shape(), context);
  LaunchOn("BatchNorm backward", context, {x, gamma, beta, mean, inverse, grad},
           {target.images(), to[1], to[2]},
           [shape, px = ImageDataOf(x), pw = DataOrNull(gamma), pb = DataOrNull(beta), pm = DataOf(mean),
            pi = DataOf(inverse), pg = ImageDataOf(grad), gx = target.data(), gw = DataOrNull(to[1]),
            gb = DataOrNull(to[2])](Kernels& k) {
             k.BatchNormBackward({.shape = shape,
                                  .x = px,
                                  .gamma = pw,
                                  .beta = pb,
                                  .mean = pm,
                                  .inverse = pi,
                                  .grad = pg,
                                  .grad_x = gx,
                                  .grad_gamma = gw,
                                  .grad_beta = gb});
           });
  target.Finish();
}

}  // namespace

// With the channels last, each pixel is a row of channels, so the kernel sees [rows, channels].
NDArray BatchNorm(const NDArray& x, const NDArray& gamma, const NDArray& beta, NDArray& running_mean,
                  NDArray& running_variance, const BatchNormOptions& options, const NDArray& addend) {
  constexpr std::string_view kWhat = "BatchNorm";
  constexpr auto kLast = ImageLayout::kChannelsLast;
  RequireTogether(kWhat, {&x, &running_mean, &running_variance}, {&gamma, &beta, &addend});
  const Shape& xs = x.shape();
  if (xs.ndim() < 2) ThrowInvalid(kWhat, StrCat("needs [n, channels, ...] and got ", xs));
  RequireFactors(kWhat, xs, xs[1], {&gamma, &beta, &running_mean, &running_variance});
  if (addend.valid() && addend.shape() != xs)
    ThrowInvalid(kWhat, StrCat("x ", xs, " and addend ", addend.shape(), " differ"));
  const PlanesShape planes = internal::PlanesOf(xs);
  const BatchNormShape shape{planes.batch * planes.size, planes.channels,  options.epsilon,
                             options.momentum,           options.training, options.relu};
  const Context context = x.context();
  NDArray x_last = InLayout(x, kLast), more = addend.valid() ? InLayout(addend, kLast) : NDArray();
  x_last.set_node(x.node());
  if (more.valid()) more.set_node(addend.node());
  NDArray out = EmptyIn(kLast, xs, context), mean = NDArray::Empty({xs[1]}, context),
          inverse = NDArray::Empty({xs[1]}, context);
  internal::ArrayRefs outputs = {out, mean, inverse};
  if (shape.training) {
    outputs.Add(running_mean);
    outputs.Add(running_variance);
  }
  LaunchOn(kWhat, context, {x_last, gamma, beta, more, running_mean, running_variance}, outputs,
           [shape, px = ImageDataOf(x_last), pg = DataOrNull(gamma), pb = DataOrNull(beta),
            pa = more.valid() ? ImageDataOf(more) : nullptr, rm = DataOf(running_mean),
            rv = DataOf(running_variance), po = ImageDataOf(out), pm = DataOf(mean),
            pi = DataOf(inverse)](Kernels& k) {
             k.BatchNorm({.shape = shape,
                          .x = px,
                          .gamma = pg,
                          .beta = pb,
                          .addend = pa,
                          .running_mean = rm,
                          .running_variance = rv,
                          .out = po,
                          .mean = pm,
                          .inverse = pi});
           });
  const bool relu_last = more.valid() && shape.relu;
  Record(out, {&x_last, &gamma, &beta, &more},
         {"BatchNorm",
          {&x_last, &gamma,
           relu_last    ? &out
           : shape.relu ? &beta
                        : nullptr}},
         [shape, relu_last, record = BatchNormRecord{x_last, gamma, beta, mean, inverse},
          wants_more = Wanted(more),
          kept = relu_last ? out : NDArray()](const NDArray& grad, std::vector<NDArray>& to) {
           BatchNormShape own = shape;
           NDArray g = grad;
           if (relu_last) {
             ActivateBackward({ActivationKind::kRelu}, kept, grad, g = NDArray());
             own.relu = false;
           }
           BatchNormBackward(own, record, InLayout(g, kLast), to);
           if (wants_more) to[3] = g;
         });
  return out;
}

NDArray LayerNorm(const NDArray& x, const NDArray& gamma, const NDArray& beta, float epsilon) {
  constexpr std::string_view kWhat = "LayerNorm";
  RequireTogether(kWhat, {&x}, {&gamma, &beta});
  const Shape& xs = x.shape();
  if (xs.ndim() < 1) ThrowInvalid(kWhat, "a scalar has no last axis");
  const int64_t columns = xs[xs.ndim() - 1], rows = columns == 0 ? 0 : x.size() / columns;
  RequireFactors(kWhat, xs, columns, {&gamma, &beta});
  const Context context = x.context();
  NDArray out = NDArray::Empty(xs, context), mean = NDArray::Empty({rows}, context),
          inverse = NDArray::Empty({rows}, context);
  LaunchOn(kWhat, context, {x, gamma, beta}, {out, mean, inverse},
           [epsilon, rows, columns, px = DataOf(x), pg = DataOrNull(gamma), pb = DataOrNull(beta),
            po = DataOf(out), pm = DataOf(mean), pi = DataOf(inverse)](Kernels& k) {
             k.LayerNorm({.rows = rows,
                          .columns = columns,
                          .epsilon = epsilon,
                          .x = px,
                          .gamma = pg,
                          .beta = pb,
                          .out = po,
                          .mean = pm,
                          .inverse = pi});
           });
  Record(
      out, {&x, &gamma, &beta}, {"LayerNorm", {&x, &gamma}},
      [x, gamma, beta, mean, inverse, rows, columns, context](const NDArray& grad, std::vector<NDArray>& to) {
        if (Wanted(x)) Target(to[0], x.shape(), context);
        if (Wanted(gamma)) Target(to[1], gamma.shape(), context);
        if (Wanted(beta)) Target(to[2], beta.shape(), context);
        LaunchOn("LayerNorm backward", context, {x, gamma, mean, inverse, grad}, {to[0], to[1], to[2]},
                 [rows, columns, px = DataOf(x), pw = DataOrNull(gamma), pm = DataOf(mean),
                  pi = DataOf(inverse), pg = DataOf(grad), gx = DataOrNull(to[0]), gw = DataOrNull(to[1]),
                  gb = DataOrNull(to[2])](Kernels& k) {
                   k.LayerNormBackward({.rows = rows,
                                        .columns = columns,
                                        .x = px,
                                        .gamma = pw,
                                        .mean = pm,
                                        .inverse = pi,
                                        .grad = pg,
                                        .grad_x = gx,
                                        .grad_gamma = gw,
                                        .grad_beta = gb});
                 });
      });
  return out;
}

}  // namespace sluice::ops

#include "sluice/nn/dense.h"

#include "autograd/ops.h"
#include "nn/require.h"

namespace sluice::nn {

Dense::Dense(int64_t units, Options options)
    : WeightedLayer((RequireAtLeast("Dense: the number of units", units, 1),
                     RequireAtLeast("Dense: in_units", options.in_units, 0), Shape{units, options.in_units}),
                    units, options.use_bias),
      units_(units),
      flatten_(options.flatten) {}

NDArray Dense::Forward(const NDArray& x) {
  const Shape& shape = x.shape();
  const int64_t known = weight().shape()[1];
  int64_t in_units = shape.ndim() < 2 ? 0 : 1;
  for (size_t axis = flatten_ ? 1 : shape.ndim() - 1; axis < shape.ndim(); ++axis) in_units *= shape[axis];
  if (in_units == 0 || (known != 0 && in_units != known)) {
    ThrowInvalid(StrCat(Describe(), " expects input of shape [", flatten_ ? "batch" : "batch, ...", ", ",
                        known == 0 ? "in_units" : std::to_string(known), "] and got ", shape));
  }
  const NDArray rows = shape.ndim() == 2 ? x : ops::Reshape(x, {x.size() / in_units, in_units});
  const NDArray y =
      ops::Dense(rows, WeightFor(x, {units_, in_units}), BiasFor(x), ops::ArithmeticFor(weight().dtype()));
  return flatten_ || shape.ndim() == 2 ? y : ops::Reshape(y, shape.WithExtent(shape.ndim() - 1, units_));
}

NDArray Flatten::Forward(const NDArray& x) {
  if (x.shape().ndim() < 2)
    ThrowInvalid(StrCat(Describe(), " expects input of shape [batch, ...] and got ", x.shape()));
  return ops::Flatten(x);
}

}  // namespace sluice::nn

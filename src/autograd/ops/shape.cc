#include "autograd/ops/common.h"

namespace sluice::ops {

NDArray Reshape(const NDArray& x, const Shape& shape) {
  NDArray out = x.Reshape(shape);
  Record(out, {&x},
         [from = x.shape()](const NDArray& grad, std::vector<NDArray>& to) { to[0] = grad.Reshape(from); });
  return out;
}

NDArray Flatten(const NDArray& x) {
  const Shape& shape = x.shape();
  if (shape.ndim() < 1) Refuse("Flatten", "a scalar has no batch axis");
  int64_t rest = 1;
  for (size_t axis = 1; axis < shape.ndim(); ++axis) rest *= shape[axis];
  return Reshape(x, {shape[0], rest});
}

}  // namespace sluice::ops

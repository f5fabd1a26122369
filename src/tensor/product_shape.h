// The shape of a product of matrices, of which dense and recurrent layers are made on every device.
#pragma once

#include <compare>
#include <cstdint>

#include "tensor/kernels/dense.h"

namespace sluice {

// out = op(a) op(b), or out += op(a) op(b) if `adds`. Matrices are row-major; op(a), a or its transpose, is
// [m, k], and op(b) is [k, n]. With has_bias, a bias [n] is added to each row.
struct ProductShape {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  Arithmetic arithmetic = Arithmetic::kFloat32;
  bool has_bias = false, adds = false;
  auto operator<=>(const ProductShape&) const = default;
};

}  // namespace sluice

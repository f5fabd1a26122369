// Products of matrices by oneDNN, each made once for its shape. Only cpu/onednn.cc uses them.
#pragma once

#include "tensor/cpu/onednn_parts.h"

namespace sluice::cpu {

// out = op(a) op(b), or out += op(a) op(b) if `adds`. Matrices are row-major; op(a), a or its transpose, is
// [m, k], and op(b) is [k, n]. With has_bias, a bias [n] is added to each row.
struct ProductShape {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  Arithmetic arithmetic = Arithmetic::kFloat32;
  bool has_bias = false, adds = false;
  auto operator<=>(const ProductShape&) const = default;
};

class Product {
 public:
  Product(const Engine& e, const ProductShape& shape);
  void Run(const float* a, const float* b, const float* bias, float* out);

 private:
  const Engine& e_;
  const dnnl::matmul::primitive_desc pd_;
  const dnnl::matmul run_;
  Input a_, b_;
  dnnl::memory bias_, out_;
  Arguments arguments_;
};

}  // namespace sluice::cpu

// Products of matrices, made once for each shape; for cpu/onednn.cc.
#pragma once

#include "tensor/cpu/onednn_parts.h"

namespace sluice::cpu {

// Row-major, out = op(a) op(b), or added to out; op(a) [m, k], op(b) [k, n]. A bias [n] is added to each row.
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

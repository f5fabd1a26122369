// Products of matrices whose elements are rounded to bfloat16, made once for each shape; for cpu/onednn.cc.
#pragma once

#include "tensor/cpu/onednn_parts.h"

namespace sluice::cpu {

// Row-major, out = op(a) op(b), or added to out; op(a) [m, k], op(b) [k, n].
struct ProductShape {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  bool adds = false;
  auto operator<=>(const ProductShape&) const = default;
};

class Product {
 public:
  Product(const Engine& e, const ProductShape& shape);
  void Run(const float* a, const float* b, float* out);

 private:
  const Engine& e_;
  const dnnl::matmul::primitive_desc pd_;
  const dnnl::matmul run_;
  Input a_, b_;
  dnnl::memory out_;
  Arguments arguments_;
};

}  // namespace sluice::cpu

// Products of matrices by oneDNN, each made once for its shape. Only cpu/onednn.cc uses them.
#pragma once

#include "tensor/cpu/onednn_parts.h"
#include "tensor/product_shape.h"

namespace sluice::cpu {

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

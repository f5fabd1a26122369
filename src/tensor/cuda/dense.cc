#include "tensor/cuda/kernels.h"
#include "tensor/cuda/product.h"

namespace sluice::cuda {

void CudaKernels::Multiply(const ProductShape& s, const float* a, const float* b, const float* bias,
                           float* out) {
  if (s.m == 0 || s.n == 0) return;
  if (s.k > 0) {
    if (products_ == nullptr) products_ = std::make_unique<Products>(stream_, workspace_);
    // cuBLASLt is not told where a bias begins, and may load 16 bytes at once.
    const bool apart = s.has_bias && reinterpret_cast<uintptr_t>(bias) % 16 != 0;
    ProductShape product = s;
    product.has_bias = s.has_bias && !apart;
    product.arithmetic = Chosen(s.arithmetic);
    products_->Multiply(product, a, b, product.has_bias ? bias : nullptr, out);
    if (apart) AddToRows({.values = bias, .out = out, .rows = s.m, .columns = s.n});
    return;
  }
  if (!s.adds) Fill({.dtype = DType::kFloat32, .out = out, .value = 0, .n = s.m * s.n});
  if (s.has_bias) AddToRows({.values = bias, .out = out, .rows = s.m, .columns = s.n});
}

void CudaKernels::Dense(const DenseArgs& args) {
  const DenseShape& s = args.shape;
  Multiply({false, true, s.rows, s.units, s.in, s.arithmetic, args.bias != nullptr}, args.x, args.weight,
           args.bias, args.out);
}

void CudaKernels::DenseBackward(const DenseBackwardArgs& args) {
  const DenseShape& s = args.shape;
  if (args.grad_weight != nullptr)
    Multiply({true, false, s.units, s.in, s.rows, s.arithmetic}, args.grad, args.x, nullptr,
             args.grad_weight);
  if (args.grad_bias != nullptr)
    SumOfRows({.a = args.grad, .sums = args.grad_bias, .rows = s.rows, .columns = s.units});
  if (args.grad_x != nullptr)
    Multiply({false, false, s.rows, s.in, s.units, s.arithmetic}, args.grad, args.weight, nullptr,
             args.grad_x);
}

}  // namespace sluice::cuda

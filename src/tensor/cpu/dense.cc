#include <cstring>

#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/onednn_product.h"

namespace sluice::cpu {

void CpuKernels::Dense(const DenseArgs& args) {
  const DenseShape s = WithSupportedArithmetic(args.shape);
  onednn_.Multiply({false, true, s.rows, s.units, s.in, s.arithmetic, args.bias != nullptr}, args.x,
                   args.weight, args.bias, args.out);
}

void CpuKernels::DenseBackward(const DenseBackwardArgs& args) {
  const DenseShape s = WithSupportedArithmetic(args.shape);
  if (args.grad_weight != nullptr && s.rows == 0)
    std::memset(args.grad_weight, 0, static_cast<size_t>(s.units * s.in) * sizeof(float));
  if (args.grad_weight != nullptr && s.rows > 0)
    onednn_.Multiply({true, false, s.units, s.in, s.rows, s.arithmetic}, args.grad, args.x, nullptr,
                     args.grad_weight);
  if (args.grad_bias != nullptr) SumRows(args.grad, args.grad_bias, s.rows, s.units);
  if (args.grad_x != nullptr && s.rows > 0)
    onednn_.Multiply({false, false, s.rows, s.in, s.units, s.arithmetic}, args.grad, args.weight, nullptr,
                     args.grad_x);
}

}  // namespace sluice::cpu

// sluice/ops.h, and variants of its operations that layers need: with an arithmetic, a fused activation, or a
// kind as an argument.
#pragma once

#include <optional>

#include "sluice/ops.h"
#include "tensor/kernels/activation.h"
#include "tensor/kernels/dense.h"
#include "tensor/kernels/recurrent.h"

namespace sluice::ops {

NDArray Dense(const NDArray& x, const NDArray& weight, const NDArray& bias, Arithmetic arithmetic);
// Applies the activation `after` to the result; its FromOutput() must be true.
NDArray Conv2D(const NDArray& x, const NDArray& weight, const NDArray& bias, const Window2D& window,
               int64_t groups, const std::optional<ActivationShape>& after, Arithmetic arithmetic);
NDArray Conv2DTranspose(const NDArray& x, const NDArray& weight, const NDArray& bias, const Window2D& window,
                        int64_t groups, int64_t out_height, int64_t out_width, Arithmetic arithmetic);
RecurrentResult Recurrent(RecurrentKind kind, const NDArray& x, const RecurrentWeights& weights,
                          const RecurrentState& begin, const RecurrentOptions& options,
                          Arithmetic arithmetic);
NDArray Activation(const ActivationShape& shape, const NDArray& x);  // as Relu, Tanh, ..., by shape.kind

// The arithmetic of a layer whose weights have type `weights`.
inline Arithmetic ArithmeticFor(DType weights) {
  return weights == DType::kBFloat16 ? Arithmetic::kBFloat16 : Arithmetic::kFloat32;
}
NDArray InFloat32(const NDArray& x);  // x itself when it is float32 or no array, else x.AsType(kFloat32)

}  // namespace sluice::ops

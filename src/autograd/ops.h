// sluice/ops.h and what layers need beside it.
#pragma once

#include <optional>

#include "sluice/ops.h"
#include "tensor/kernels.h"

namespace sluice::ops {

NDArray Dense(const NDArray& x, const NDArray& weight, const NDArray& bias, Arithmetic arithmetic);
// `after`, one that FromOutput, is applied to the result.
NDArray Conv2D(const NDArray& x, const NDArray& weight, const NDArray& bias, const Window2D& window,
               int64_t groups, const std::optional<ActivationShape>& after, Arithmetic arithmetic);
NDArray Conv2DTranspose(const NDArray& x, const NDArray& weight, const NDArray& bias, const Window2D& window,
                        int64_t groups, int64_t out_height, int64_t out_width, Arithmetic arithmetic);
RecurrentResult Recurrent(RecurrentKind kind, const NDArray& x, const RecurrentWeights& weights,
                          const RecurrentState& begin, const RecurrentOptions& options,
                          Arithmetic arithmetic);
NDArray Activation(const ActivationShape& shape, const NDArray& x);  // as the function of its kind

// How a layer multiplies whose weights are kept so.
inline Arithmetic ArithmeticFor(DType weights) {
  return weights == DType::kBFloat16 ? Arithmetic::kBFloat16 : Arithmetic::kFloat32;
}
NDArray InFloat32(const NDArray& x);  // x itself, or x.AsType(kFloat32); no array stays none

}  // namespace sluice::ops

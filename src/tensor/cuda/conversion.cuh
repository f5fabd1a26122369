// Element types of arrays as types of C++, and conversions between them, rounded to nearest even.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "sluice/dtype.h"

namespace sluice::cuda {

// The types in which elements are computed: float, and double for float64.
template <typename T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
__host__ __device__ Computed<T> Load(T value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __half2float(value);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __bfloat162float(value);
  } else {
    return static_cast<Computed<T>>(value);
  }
}

template <typename T, typename From>
__host__ __device__ T Rounded(From value) {
  constexpr bool kWide = std::is_same_v<From, double>;
  if constexpr (std::is_same_v<T, __half>) {
    if constexpr (kWide) return __double2half(value);
    if constexpr (!kWide) return __float2half_rn(value);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    if constexpr (kWide) return __double2bfloat16(value);
    if constexpr (!kWide) return __float2bfloat16_rn(value);
  } else {
    return static_cast<T>(value);
  }
}

// Calls visit(T{}) with the type of the elements.
template <typename Visit>
void WithFloatingType(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kFloat64:
      return visit(double{});
    case DType::kFloat16:
      return visit(__half{});
    case DType::kBFloat16:
      return visit(__nv_bfloat16{});
    default:
      return visit(float{});
  }
}
template <typename Visit>
void WithType(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kInt32:
      return visit(int32_t{});
    case DType::kInt64:
      return visit(int64_t{});
    case DType::kUInt8:
      return visit(uint8_t{});
    default:
      return WithFloatingType(dtype, visit);
  }
}

}  // namespace sluice::cuda

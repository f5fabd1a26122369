// The sum of several arrays at one element (tensor/types/add_up.h), for kernels that use it at once.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tensor/cuda/conversion.cuh"

namespace sluice::cuda {

// Integers are added as unsigned numbers, so that they wrap.
template <typename T>
using Added =
    std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<Computed<T>>>::type;

template <typename T>
__device__ Added<T> Addend(T value) {
  if constexpr (std::is_integral_v<T>) return static_cast<Added<T>>(value);
  if constexpr (!std::is_integral_v<T>) return Load(value);
}

// Returns the sum of arrays[0][i] to arrays[count - 1][i], in this order, rounded once. That of 16-bit floats
// is multiplied by `share` before. arrays[k] is a pointer to elements of type T.
template <typename T, typename Arrays>
__device__ T SumAt(const Arrays& arrays, int count, float share, int64_t i) {
  const auto at = [&](int k) { return Addend(static_cast<const T*>(arrays[k])[i]); };
  Added<T> sum = at(0);
  for (int k = 1; k < count; ++k) sum = static_cast<Added<T>>(sum + at(k));
  if constexpr (sizeof(T) == 2) sum *= share;
  return Rounded<T>(sum);
}

}  // namespace sluice::cuda

// How kernels read labels, ids and lengths: whole numbers of a range.
#pragma once

#include <cmath>
#include <type_traits>

#include "tensor/cuda/bad_input.h"
#include "tensor/cuda/launch.h"

namespace sluice::cuda {

// Returns values[place], or -1 if it is no whole number in [0, end), which is noted; `limit` is what the
// message names.
template <typename T>
__device__ int64_t ReadWhole(const InputCheck& check, BadInputKind kind, const T* values, int64_t place,
                             int64_t end, int64_t limit) {
  const T value = values[place];
  bool fits = static_cast<double>(value) < static_cast<double>(end);
  if constexpr (std::is_signed_v<T>) fits = fits && value >= 0;
  if constexpr (std::is_floating_point_v<T>) fits = fits && value == std::floor(value);
  if (fits) return static_cast<int64_t>(value);
  BadInput& found = *check.found;
  if (atomicCAS(&found.found, 0, 1) != 0) return -1;
  found.kind = kind;
  found.operation = check.operation;
  found.place = place;
  found.limit = limit;
  found.is_number = std::is_floating_point_v<T> ? 1 : 0;
  if constexpr (std::is_floating_point_v<T>) found.number = value;
  if constexpr (!std::is_floating_point_v<T>) found.whole = static_cast<int64_t>(value);
  return -1;
}

// Whether an operation has found something, so that lasting state must not change.
__device__ inline bool HasFailed(const InputCheck& check) {
  return check.found->found != 0;
}

}  // namespace sluice::cuda

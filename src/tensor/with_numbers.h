// Arrays of numbers, such as ids and lengths, of any type that may hold them.
#pragma once

#include <cstdint>

#include "sluice/dtype.h"

namespace sluice {

// Calls read(const T* values) with the type T that `dtype` names: int32_t, int64_t, uint8_t or float.
template <typename Read>
void WithNumbers(DType dtype, const void* values, Read&& read) {
  switch (dtype) {
    case DType::kInt32:
      return read(static_cast<const int32_t*>(values));
    case DType::kInt64:
      return read(static_cast<const int64_t*>(values));
    case DType::kUInt8:
      return read(static_cast<const uint8_t*>(values));
    default:
      return read(static_cast<const float*>(values));
  }
}

}  // namespace sluice

#include "tensor/types/add_up.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/simd.h"
#include "tensor/types/half.h"

namespace sluice {
namespace {

using Arrays = std::span<const std::byte* const>;

template <typename T>
inline void AddLoop(const T* from, T* to, size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] = static_cast<T>(to[i] + from[i]);
}
SLUICE_SIMD void Add(const float* from, float* to, size_t n) {
  AddLoop(from, to, n);
}
SLUICE_SIMD void Add(const double* from, double* to, size_t n) {
  AddLoop(from, to, n);
}
// Integers are added as unsigned numbers, so that they wrap.
SLUICE_SIMD void Add(const uint32_t* from, uint32_t* to, size_t n) {
  AddLoop(from, to, n);
}
SLUICE_SIMD void Add(const uint64_t* from, uint64_t* to, size_t n) {
  AddLoop(from, to, n);
}
SLUICE_SIMD void Add(const uint8_t* from, uint8_t* to, size_t n) {
  AddLoop(from, to, n);
}

SLUICE_SIMD void Multiply(float by, float* values, size_t n) {
  for (size_t i = 0; i < n; ++i) values[i] *= by;
}

template <typename T>
void AddUpAs(Arrays arrays, std::byte* out, size_t first, size_t n) {
  T* to = reinterpret_cast<T*>(out) + first;
  if (n > 0) std::memcpy(to, reinterpret_cast<const T*>(arrays[0]) + first, n * sizeof(T));
  for (const std::byte* array : arrays.subspan(1)) Add(reinterpret_cast<const T*>(array) + first, to, n);
}

void AddUpHalves(DType dtype, Arrays arrays, float share, std::byte* out, size_t first, size_t n) {
  const auto widen = dtype == DType::kFloat16 ? HalfToFloat : BFloat16ToFloat;
  const auto narrow = dtype == DType::kFloat16 ? FloatToHalf : FloatToBFloat16;
  constexpr size_t kBlock = 1024;
  float sum[kBlock], term[kBlock];
  for (size_t at = first; at < first + n; at += kBlock) {
    const size_t count = std::min(kBlock, first + n - at);
    widen(arrays[0] + 2 * at, sum, count);
    for (const std::byte* array : arrays.subspan(1)) {
      widen(array + 2 * at, term, count);
      Add(term, sum, count);
    }
    if (share != 1) Multiply(share, sum, count);
    narrow(sum, out + 2 * at, count);
  }
}

}  // namespace

void AddUp(DType dtype, Arrays arrays, uint32_t exponent, std::byte* out, size_t first, size_t n) {
  switch (dtype) {
    case DType::kFloat32:
      return AddUpAs<float>(arrays, out, first, n);
    case DType::kFloat64:
      return AddUpAs<double>(arrays, out, first, n);
    case DType::kFloat16:
    case DType::kBFloat16:
      return AddUpHalves(dtype, arrays, std::ldexp(1.0f, -static_cast<int>(exponent)), out, first, n);
    case DType::kInt32:
      return AddUpAs<uint32_t>(arrays, out, first, n);
    case DType::kInt64:
      return AddUpAs<uint64_t>(arrays, out, first, n);
    case DType::kUInt8:
      return AddUpAs<uint8_t>(arrays, out, first, n);
  }
}

}  // namespace sluice

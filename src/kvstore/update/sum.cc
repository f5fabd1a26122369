#include "kvstore/update/sum.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/simd.h"
#include "tensor/types/half.h"

namespace sluice::kvstore {
namespace {

// Unaligned loads through memcpy: compilers turn it into plain vector loads.
template <typename T>
inline T LoadAt(const std::byte* from, size_t i) {
  T value;
  std::memcpy(&value, from + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
inline void AddInto(const std::byte* from, size_t n, T* out) {
  using Sum =
      typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  for (size_t i = 0; i < n; ++i)
    out[i] = static_cast<T>(static_cast<Sum>(out[i]) + static_cast<Sum>(LoadAt<T>(from, i)));
}

SLUICE_SIMD void Add(const std::byte* from, size_t n, float* out) {
  AddInto(from, n, out);
}
SLUICE_SIMD void Add(const std::byte* from, size_t n, double* out) {
  AddInto(from, n, out);
}
SLUICE_SIMD void Add(const std::byte* from, size_t n, int32_t* out) {
  AddInto(from, n, out);
}
SLUICE_SIMD void Add(const std::byte* from, size_t n, int64_t* out) {
  AddInto(from, n, out);
}
SLUICE_SIMD void Add(const std::byte* from, size_t n, uint8_t* out) {
  AddInto(from, n, out);
}

template <typename T>
void SumOf(std::span<const std::byte* const> sources, size_t first, size_t n, T* out) {
  std::memcpy(out, sources[0] + first * sizeof(T), n * sizeof(T));
  for (size_t s = 1; s < sources.size(); ++s) Add(sources[s] + first * sizeof(T), n, out);
}

void SumOfHalves(DType dtype, std::span<const std::byte* const> sources, size_t first, size_t n, float* out) {
  const auto widen = dtype == DType::kFloat16 ? HalfToFloat : BFloat16ToFloat;
  constexpr size_t kChunk = 1024;
  float chunk[kChunk];
  for (size_t at = 0; at < n; at += kChunk) {
    const size_t count = std::min(kChunk, n - at);
    widen(sources[0] + (first + at) * 2, out + at, count);
    for (size_t s = 1; s < sources.size(); ++s) {
      widen(sources[s] + (first + at) * 2, chunk, count);
      Add(reinterpret_cast<const std::byte*>(chunk), count, out + at);
    }
  }
}

}  // namespace

void SumBlock(DType dtype, std::span<const std::byte* const> sources, size_t first, size_t n, float* out) {
  if (dtype == DType::kFloat32) return SumOf(sources, first, n, out);
  SLUICE_CHECK(dtype == DType::kFloat16 || dtype == DType::kBFloat16);
  SumOfHalves(dtype, sources, first, n, out);
}
void SumBlock(std::span<const std::byte* const> sources, size_t first, size_t n, double* out) {
  SumOf(sources, first, n, out);
}
void SumBlock(std::span<const std::byte* const> sources, size_t first, size_t n, int32_t* out) {
  SumOf(sources, first, n, out);
}
void SumBlock(std::span<const std::byte* const> sources, size_t first, size_t n, int64_t* out) {
  SumOf(sources, first, n, out);
}
void SumBlock(std::span<const std::byte* const> sources, size_t first, size_t n, uint8_t* out) {
  SumOf(sources, first, n, out);
}

}  // namespace sluice::kvstore

#include "kvstore/update/sum.h"

#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/simd.h"

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
void SumOf(std::span<const Encoded> sources, size_t first, size_t n, T* out) {
  std::memcpy(out, sources[0].data + first * sizeof(T), n * sizeof(T));
  for (const Encoded& source : sources.subspan(1)) Add(source.data + first * sizeof(T), n, out);
}

}  // namespace

void SumBlock(DType dtype, std::span<const Encoded> sources, size_t first, size_t n, float* out) {
  SLUICE_CHECK(dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16);
  compression::Decode(sources[0], dtype, first, n, out);
  for (const Encoded& source : sources.subspan(1)) compression::AddDecoded(source, dtype, first, n, out);
}
void SumBlock(std::span<const Encoded> sources, size_t first, size_t n, double* out) {
  SumOf(sources, first, n, out);
}
void SumBlock(std::span<const Encoded> sources, size_t first, size_t n, int32_t* out) {
  SumOf(sources, first, n, out);
}
void SumBlock(std::span<const Encoded> sources, size_t first, size_t n, int64_t* out) {
  SumOf(sources, first, n, out);
}
void SumBlock(std::span<const Encoded> sources, size_t first, size_t n, uint8_t* out) {
  SumOf(sources, first, n, out);
}

}  // namespace sluice::kvstore

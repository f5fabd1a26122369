#include "compression/halves.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/simd.h"
#include "tensor/types/half.h"

namespace sluice::compression {
namespace {

constexpr size_t kBlock = 1024;  // elements

float Largest(DType as) {
  return as == DType::kFloat16 ? 65504.0f : std::bit_cast<float>(uint32_t{0x7f7f0000});
}

// Clamps finite elements to the range of -largest to largest. Infinities and NaN stay.
SLUICE_SIMD void Clamp(float largest, const float* r, size_t n, float* sent) {
  for (size_t i = 0; i < n; ++i) {
    const float value = r[i], size = std::abs(value);
    const bool too_large = size > largest && size <= std::numeric_limits<float>::max();
    sent[i] = too_large ? std::copysign(largest, value) : value;
  }
}

SLUICE_SIMD void Subtract(const float* sent, size_t n, float* r) {
  for (size_t i = 0; i < n; ++i) {
    const float left = r[i] - sent[i];  // NaN for what is not finite
    r[i] = left == left ? left : 0.0f;
  }
}

SLUICE_SIMD void Add(const float* from, size_t n, float* to) {
  for (size_t i = 0; i < n; ++i) to[i] += from[i];
}

void Narrow(DType as, const float* from, std::byte* to, size_t n) {
  as == DType::kFloat16 ? FloatToHalf(from, to, n) : FloatToBFloat16(from, to, n);
}
void Widen(DType as, const std::byte* from, float* to, size_t n) {
  as == DType::kFloat16 ? HalfToFloat(from, to, n) : BFloat16ToFloat(from, to, n);
}

}  // namespace

void RoundHalves(DType as, const float* from, size_t n, std::byte* out) {
  float sent[kBlock];
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    Clamp(Largest(as), from + first, count, sent);
    Narrow(as, sent, out + 2 * first, count);
  }
}

void EncodeHalves(DType as, float* r, size_t n, std::byte* out) {
  float sent[kBlock];
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    Clamp(Largest(as), r + first, count, sent);
    Narrow(as, sent, out + 2 * first, count);
    Widen(as, out + 2 * first, sent, count);
    Subtract(sent, count, r + first);
  }
}

void DecodeHalves(DType as, const std::byte* from, size_t n, bool add, float* out) {
  if (!add) return Widen(as, from, out, n);
  float term[kBlock];
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    Widen(as, from + 2 * first, term, count);
    Add(term, count, out + first);
  }
}

}  // namespace sluice::compression

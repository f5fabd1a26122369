#include "tensor/types/half.h"

#include <bit>
#include <cstring>

#include "base/simd.h"

namespace sluice {
namespace {

// Returns `condition` ? yes : no, computed with a bit mask. The compiler turns a conditional expression into
// a branch around the floating-point operation, and then does not vectorise the loop.
inline uint32_t Select(bool condition, uint32_t yes, uint32_t no) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

// The conversions are branch-free (Fabian Giesen, "half to float done quickly", public domain), so that loops
// over them vectorise.
inline uint32_t HalfBitsToFloatBits(uint32_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  const float scaled = std::bit_cast<float>(magnitude << 13) * std::bit_cast<float>(0x77800000u);  // * 2^112
  const uint32_t normal = std::bit_cast<uint32_t>(scaled);
  const uint32_t special = 0x7f800000u | (magnitude << 13);
  return sign | Select(magnitude >= 0x7c00u, special, normal);
}

inline uint16_t FloatBitsToHalfBits(uint32_t bits) {
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // For normal halves: rebias the exponent, add the rounding term, and cut the low bits.
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // For subnormal halves: adding 0.5f aligns the mantissa and rounds to nearest even.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t infinite = Select(magnitude > 0x7f800000u, 0x7e00u, 0x7c00u);
  const uint32_t finite = Select(magnitude < 0x38800000u, subnormal, normal);
  return static_cast<uint16_t>(sign | Select(magnitude >= 0x477ff000u, infinite, finite));
}

inline uint16_t FloatBitsToBFloat16Bits(uint32_t bits) {
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

}  // namespace

Half HalfFromFloat(float value) {
  return Half{FloatBitsToHalfBits(std::bit_cast<uint32_t>(value))};
}
float ToFloat(Half value) {
  return std::bit_cast<float>(HalfBitsToFloatBits(value.bits));
}
BFloat16 BFloat16FromFloat(float value) {
  return BFloat16{FloatBitsToBFloat16Bits(std::bit_cast<uint32_t>(value))};
}
float ToFloat(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

SLUICE_SIMD void HalfToFloat(const std::byte* from, float* to, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, 2);
    to[i] = std::bit_cast<float>(HalfBitsToFloatBits(bits));
  }
}

SLUICE_SIMD void FloatToHalf(const float* from, std::byte* to, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint16_t bits = FloatBitsToHalfBits(std::bit_cast<uint32_t>(from[i]));
    std::memcpy(to + 2 * i, &bits, 2);
  }
}

SLUICE_SIMD void BFloat16ToFloat(const std::byte* from, float* to, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, 2);
    to[i] = std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
}

SLUICE_SIMD void FloatToBFloat16(const float* from, std::byte* to, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint16_t bits = FloatBitsToBFloat16Bits(std::bit_cast<uint32_t>(from[i]));
    std::memcpy(to + 2 * i, &bits, 2);
  }
}

}  // namespace sluice

// The loops of 2bit and 1bit (bits.h). Encoding compares a block of elements, with one byte per comparison,
// so that the compiler vectorises the loop, and then packs eight of these bytes into eight bits by one
// multiplication. Decoding looks up four elements at a time. 2bit has 16 bits "plus" and 16 bits "minus" for
// each 16 elements. Called by codec.cc, on any thread; no state.
#include "compression/bits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/simd.h"

namespace sluice::compression {
namespace {

constexpr size_t kBlock = 1024;  // elements

// Packs eight bytes of 0 or 1 into eight bits, the first byte lowest: the product's
// highest byte contains each of them once.
inline uint8_t BitsOf(const uint8_t* flags) {
  uint64_t eight;
  std::memcpy(&eight, flags, sizeof eight);
  return static_cast<uint8_t>(eight * 0x0102040810204080ull >> 56);
}

inline uint32_t NotFinite(float value) {
  return std::abs(value) <= std::numeric_limits<float>::max() ? 0u : 1u;
}

// Sets `plus` and `minus` to 1 for elements that are sent as +threshold and -threshold, and subtracts what is
// sent from r. Returns whether an element is not finite.
SLUICE_SIMD uint32_t Round2Bit(float threshold, float* r, size_t n, uint8_t* plus, uint8_t* minus) {
  uint32_t wrong = 0;
  for (size_t i = 0; i < n; ++i) {
    const float value = r[i];
    const int up = value >= threshold, down = value <= -threshold;  // no branch: vectorises
    plus[i] = static_cast<uint8_t>(up);
    minus[i] = static_cast<uint8_t>(down);
    r[i] = value - threshold * static_cast<float>(up - down);
    wrong |= NotFinite(value);
  }
  return wrong;
}

// As Round2Bit: elements above `threshold` are sent as +one, the others as -one.
SLUICE_SIMD uint32_t Round1Bit(float threshold, float one, float* r, size_t n, uint8_t* plus) {
  uint32_t wrong = 0;
  for (size_t i = 0; i < n; ++i) {
    const float value = r[i];
    const bool up = value > threshold;
    plus[i] = up;
    r[i] = value - (up ? one : -one);
    wrong |= NotFinite(value);
  }
  return wrong;
}

// Replaces what is not finite in r by 0, if `wrong`. Returns !wrong.
bool ZeroNonFinite(bool wrong, float* r, size_t n) {
  if (wrong)
    std::replace_if(
        r, r + n, [](float value) { return !std::isfinite(value); }, 0.0f);
  return !wrong;
}

// The four numbers that four bits in a row stand for, for each of their 16 values.
using Fours = std::array<std::array<float, 4>, 16>;
Fours MakeFours(float one, float zero) {
  Fours fours;
  for (size_t bits = 0; bits < 16; ++bits) {
    for (size_t i = 0; i < 4; ++i) fours[bits][i] = (bits >> i & 1) != 0 ? one : zero;
  }
  return fours;
}

template <bool kAdd>
inline void Put(float value, float* out) {
  *out = kAdd ? *out + value : value;
}

template <bool kAdd>
void Decode2BitInto(const std::byte* bits, float value, size_t n, float* out) {
  const Fours plus = MakeFours(value, 0), minus = MakeFours(-value, 0);
  size_t i = 0;
  for (; i + 16 <= n; i += 16, bits += 4) {
    uint32_t group;
    std::memcpy(&group, bits, sizeof group);
    for (size_t four = 0; four < 4; ++four, group >>= 4) {
      const auto& up = plus[group & 15];
      const auto& down = minus[group >> 16 & 15];
      for (size_t j = 0; j < 4; ++j) Put<kAdd>(up[j] + down[j], out + i + 4 * four + j);
    }
  }
  if (i == n) return;
  uint32_t group;
  std::memcpy(&group, bits, sizeof group);
  for (; i < n; ++i, group >>= 1) Put<kAdd>(plus[group & 1][0] + minus[group >> 16 & 1][0], out + i);
}

template <bool kAdd>
void Decode1BitInto(const std::byte* bits, float value, size_t n, float* out) {
  const Fours fours = MakeFours(value, -value);
  size_t i = 0;
  for (; i + 8 <= n; i += 8, ++bits) {
    const auto eight = static_cast<uint8_t>(*bits);
    for (size_t j = 0; j < 4; ++j) Put<kAdd>(fours[eight & 15][j], out + i + j);
    for (size_t j = 0; j < 4; ++j) Put<kAdd>(fours[eight >> 4][j], out + i + 4 + j);
  }
  for (unsigned rest = i < n ? static_cast<uint8_t>(*bits) : 0; i < n; ++i, rest >>= 1)
    Put<kAdd>(fours[rest & 1][0], out + i);
}

}  // namespace

bool Encode2Bit(float threshold, float* r, size_t n, std::byte* out) {
  uint8_t plus[kBlock], minus[kBlock];
  bool finite = true;
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first), padded = (count + 15) / 16 * 16;
    const bool wrong = Round2Bit(threshold, r + first, count, plus, minus) != 0;
    finite &= ZeroNonFinite(wrong, r + first, count);
    std::fill(plus + count, plus + padded, uint8_t{0});
    std::fill(minus + count, minus + padded, uint8_t{0});
    for (size_t i = 0; i < padded; i += 16, out += 4) {
      const uint8_t group[] = {BitsOf(plus + i), BitsOf(plus + i + 8), BitsOf(minus + i),
                               BitsOf(minus + i + 8)};
      std::memcpy(out, group, sizeof group);
    }
  }
  return finite;
}

bool Encode1Bit(float threshold, float one, float* r, size_t n, std::byte* out) {
  uint8_t plus[kBlock];
  bool finite = true;
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first), padded = (count + 7) / 8 * 8;
    const bool wrong = Round1Bit(threshold, one, r + first, count, plus) != 0;
    finite &= ZeroNonFinite(wrong, r + first, count);
    std::fill(plus + count, plus + padded, uint8_t{0});
    for (size_t i = 0; i < padded; i += 8) *out++ = std::byte{BitsOf(plus + i)};
  }
  return finite;
}

void Decode2Bit(const std::byte* bits, float value, size_t n, bool add, float* out) {
  add ? Decode2BitInto<true>(bits, value, n, out) : Decode2BitInto<false>(bits, value, n, out);
}

void Decode1Bit(const std::byte* bits, float value, size_t n, bool add, float* out) {
  add ? Decode1BitInto<true>(bits, value, n, out) : Decode1BitInto<false>(bits, value, n, out);
}

bool HasOnly2BitCodes(const std::byte* bits, size_t n) {
  uint32_t group = 0, both = 0;
  for (size_t i = 0; i < n; i += 16, bits += 4) {
    std::memcpy(&group, bits, sizeof group);
    both |= group & group >> 16;
  }
  const uint32_t beyond = n % 16 == 0 ? 0 : 0xffffu << n % 16 & 0xffffu;
  return both == 0 && ((group | group >> 16) & beyond) == 0;
}

bool HasOnly1BitCodes(const std::byte* bits, size_t n) {
  return n % 8 == 0 || static_cast<uint8_t>(bits[n / 8]) >> n % 8 == 0;
}

}  // namespace sluice::compression

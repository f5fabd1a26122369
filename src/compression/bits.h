// 2bit and 1bit: a part as one number and a few bits of each element. All multiples of 16 elements but a
// part's last.
#pragma once

#include <cstddef>

namespace sluice::compression {

// Elements of r, which are gradient plus residual, become bits at `out` and what these do not say of them.
// False where one of r is not finite: its bits mean nothing, and 0 is left of it. A bit stands for threshold
// and for `one`.
bool Encode2Bit(float threshold, float* r, size_t n, std::byte* out);
bool Encode1Bit(float threshold, float one, float* r, size_t n, std::byte* out);

constexpr size_t Bytes2Bit(size_t n) {
  return (n + 15) / 16 * 4;
}
constexpr size_t Bytes1Bit(size_t n) {
  return (n + 7) / 8;
}

// out[i] (add: +)= the number that the bits say, `value` times -1, 0 or 1.
void Decode2Bit(const std::byte* bits, float value, size_t n, bool add, float* out);
void Decode1Bit(const std::byte* bits, float value, size_t n, bool add, float* out);

// Whether no element is both +1 and -1, and none beyond n is anything.
bool IsValid2Bit(const std::byte* bits, size_t n);
bool IsValid1Bit(const std::byte* bits, size_t n);

}  // namespace sluice::compression

// The bits of 2bit and 1bit, which encode each element of a part as two bits or one. Blocks of a part have a
// multiple of 16 elements, except the last.
#pragma once

#include <cstddef>

namespace sluice::compression {

// Encode the n elements of r, gradient plus residual, as bits at `out`, and leave in r the difference to the
// decoded numbers. A set bit of Encode2Bit stands for +threshold or -threshold; a bit of Encode1Bit for +one
// or -one. Return false if an element is not finite: its bits have no meaning, and 0 is left in r.
bool Encode2Bit(float threshold, float* r, size_t n, std::byte* out);
bool Encode1Bit(float threshold, float one, float* r, size_t n, std::byte* out);

constexpr size_t Bytes2Bit(size_t n) {
  return (n + 15) / 16 * 4;
}
constexpr size_t Bytes1Bit(size_t n) {
  return (n + 7) / 8;
}

// Set out[i] to the number that the bits stand for, `value` times -1, 0 or 1; add it if `add`.
void Decode2Bit(const std::byte* bits, float value, size_t n, bool add, float* out);
void Decode1Bit(const std::byte* bits, float value, size_t n, bool add, float* out);

// Whether no element is both +1 and -1, and no bit beyond element n is set.
bool HasOnly2BitCodes(const std::byte* bits, size_t n);
bool HasOnly1BitCodes(const std::byte* bits, size_t n);

}  // namespace sluice::compression

// Arrays of any element type for the device contract: their elements' bits, and a slow implementation of
// IEEE 754's formats and rounding that says which bits are right.
#pragma once

#include <cstdint>
#include <vector>

#include "contract/device/device_test.h"

namespace sluice::testing {

// The bits of elements of any type, those of one element in the low bits of a word.
using Words = std::vector<uint64_t>;

inline constexpr DType kFloatingTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16,
                                           DType::kBFloat16};

// A floating type, by its numbers of bits.
struct Format {
  int exponent_bits, mantissa_bits;
  int least() const { return 2 - (1 << (exponent_bits - 1)); }  // the exponent of the least normal number
  uint64_t sign() const { return uint64_t{1} << (exponent_bits + mantissa_bits); }
  uint64_t one_step() const { return uint64_t{1} << mantissa_bits; }  // a step of the exponent
  uint64_t infinity() const { return sign() - one_step(); }
};
Format FormatOf(DType type);
bool IsNan(Format f, uint64_t word);
double ValueOf(Format f, uint64_t word);
// Returns the number of the format that is nearest to `value`, and of two the even one.
uint64_t WordOf(Format f, double value);

// Calls visit(T{}) with the unsigned integer T that is as wide as an element of the type.
template <typename Visit>
auto WithWidth(DType type, Visit&& visit) {
  switch (SizeOf(type)) {
    case 1:
      return visit(uint8_t{});
    case 2:
      return visit(uint16_t{});
    case 4:
      return visit(uint32_t{});
    default:
      return visit(uint64_t{});
  }
}
inline uint64_t BitsOf(DType type) {
  return ~uint64_t{0} >> (64 - 8 * SizeOf(type));
}

// Expects the same bits, and any NaN where a NaN is expected.
void ExpectSame(DType type, const Words& actual, const Words& expected);

class TypedDeviceTest : public DeviceTest {
 protected:
  const void* InputOf(DType type, const Words& words) {
    return WithWidth(type, [&]<typename T>(T) -> const void* {
      return Input(std::vector<T>(words.begin(), words.end()));
    });
  }
  void* InOutOf(DType type, const Words& words) {
    return WithWidth(
        type, [&]<typename T>(T) -> void* { return InOut(std::vector<T>(words.begin(), words.end())); });
  }
  // Makes an array to write to whose elements hold neither poison nor a usual value.
  void* InOutOf(DType type, int64_t n) {
    return InOutOf(type, Words(static_cast<size_t>(n), 0x1234567812345678));
  }
  Words ReadWords(DType type, const void* array) const {
    return WithWidth(type, [&]<typename T>(T) {
      const std::vector<T> values = Read(static_cast<const T*>(array));
      return Words(values.begin(), values.end());
    });
  }
  // Returns n elements of random bits.
  Words RandomWords(DType type, int64_t n);
  // Returns n random numbers in [low, high] of a floating type.
  Words RandomNumbers(DType type, int64_t n, double low, double high);
};

}  // namespace sluice::testing

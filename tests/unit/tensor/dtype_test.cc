// Tests tensor/types: float16 and bfloat16 round to nearest even. All 65,536 values and each tie between
// neighbours are tried.
#include "sluice/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "tensor/types/half.h"

namespace sluice {
namespace {

// IEEE 754: (-1)^s 2^(e - bias) (1 + m / 2^digits), without the 1 and with exponent 1 - bias for e = 0.
double ValueOf(uint32_t bits, int exponent_bits, int digits) {
  const int exponent_mask = (1 << exponent_bits) - 1, bias = exponent_mask / 2;
  const int exponent = static_cast<int>(bits >> digits) & exponent_mask;
  const double mantissa = std::ldexp(static_cast<double>(bits & ((1u << digits) - 1)), -digits);
  const double sign = (bits >> (exponent_bits + digits)) != 0 ? -1 : 1;
  if (exponent == exponent_mask) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  return exponent == 0 ? sign * std::ldexp(mantissa, 1 - bias)
                       : sign * std::ldexp(1 + mantissa, exponent - bias);
}

struct Format {
  int exponent_bits, digits;
  uint16_t (*narrow)(float);
  float (*widen)(uint16_t);
  void (*narrow_all)(const float*, std::byte*, size_t);
  void (*widen_all)(const std::byte*, float*, size_t);

  double Value(uint32_t bits) const { return ValueOf(bits, exponent_bits, digits); }
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << digits; }
  // Rounded to nearest even by looking among the values there are. The value that would follow the largest
  // finite one stands for infinity.
  uint16_t Nearest(double value) const {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double magnitude = std::fabs(value);
    uint32_t low = 0, high = infinity();
    const auto at = [&](uint32_t bits) {
      return bits == infinity() ? std::ldexp(1.0, 1 << (exponent_bits - 1)) : Value(bits);
    };
    if (magnitude >= at(high)) return static_cast<uint16_t>(sign | high);
    while (high - low > 1) {
      const uint32_t middle = (low + high) / 2;
      (at(middle) <= magnitude ? low : high) = middle;
    }
    const double below = magnitude - at(low), above = at(high) - magnitude;
    const bool up = above < below || (above == below && low % 2 == 1);
    return static_cast<uint16_t>(sign | (up ? high : low));
  }
};

void PrintTo(const Format& format, std::ostream* out) {
  *out << (format.digits == 10 ? "Half" : "BFloat16");
}

const Format kHalf = {5,
                      10,
                      [](float value) { return HalfFromFloat(value).bits; },
                      [](uint16_t bits) { return ToFloat(Half{bits}); },
                      FloatToHalf,
                      HalfToFloat};
const Format kBFloat16 = {8,
                          7,
                          [](float value) { return BFloat16FromFloat(value).bits; },
                          [](uint16_t bits) { return ToFloat(BFloat16{bits}); },
                          FloatToBFloat16,
                          BFloat16ToFloat};

class SixteenBitTest : public ::testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(Formats, SixteenBitTest, ::testing::Values(kHalf, kBFloat16),
                         ::testing::PrintToStringParamName());

TEST_P(SixteenBitTest, EveryValueWidensExactlyAndComesBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const double expected = GetParam().Value(bits);
    const float actual = GetParam().widen(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << bits;
      ASSERT_TRUE(std::isnan(GetParam().Value(GetParam().narrow(actual)))) << bits;
      continue;
    }
    ASSERT_EQ(actual, expected) << bits;
    ASSERT_EQ(std::signbit(actual), std::signbit(expected)) << bits;
    ASSERT_EQ(GetParam().narrow(actual), bits);
  }
}

TEST_P(SixteenBitTest, RoundsToNearestEvenAtAndBesideEveryTie) {
  for (uint32_t bits = 0; bits < GetParam().infinity(); ++bits) {
    const double next = bits + 1 == GetParam().infinity()
                            ? std::ldexp(1.0, 1 << (GetParam().exponent_bits - 1))
                            : GetParam().Value(bits + 1);
    const auto tie = static_cast<float>((GetParam().Value(bits) + next) / 2);
    for (const float value : {std::nextafter(tie, 0.0f), tie, std::nextafter(tie, HUGE_VALF)}) {
      for (const float signed_value : {value, -value}) {
        ASSERT_EQ(GetParam().narrow(signed_value), GetParam().Nearest(signed_value)) << signed_value;
      }
    }
  }
}

TEST_P(SixteenBitTest, RoundsAnyFloatToNearestEven) {
  Rng rng(1);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(rng.Next()));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(GetParam().Value(GetParam().narrow(value))));
    } else {
      ASSERT_EQ(GetParam().narrow(value), GetParam().Nearest(value)) << value;
    }
  }
}

TEST_P(SixteenBitTest, ConvertsAtAnyAlignment) {
  Rng rng(2);
  for (const size_t n : {0, 1, 7, 8, 33, 1000}) {
    std::vector<float> values(n), back(n);
    for (float& value : values) value = static_cast<float>(rng.Normal());
    std::vector<std::byte> bytes(2 * n + 3, std::byte{0xee});
    GetParam().narrow_all(values.data(), bytes.data() + 1, n);
    GetParam().widen_all(bytes.data() + 1, back.data(), n);
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(back[i], GetParam().Value(GetParam().Nearest(values[i]))) << n << ", element " << i;
    }
    EXPECT_EQ(bytes.front(), std::byte{0xee});
    EXPECT_EQ(bytes[2 * n + 1], std::byte{0xee});
  }
}

TEST(DTypeTest, NamesLeadBackToTheirTypes) {
  for (const DType dtype : kAllDTypes) EXPECT_EQ(DTypeFromName(Name(dtype)), dtype);
  EXPECT_EQ(DTypeFromName("float"), std::nullopt);
  EXPECT_EQ(DTypeFromName(""), std::nullopt);
  EXPECT_EQ(Name(DType::kBFloat16), "bfloat16");
}

TEST(DTypeTest, CodesAreDLPacks) {
  const struct {
    DType dtype;
    int code, bits;
  } expected[] = {{DType::kFloat32, 2, 32},  {DType::kFloat64, 2, 64}, {DType::kFloat16, 2, 16},
                  {DType::kBFloat16, 4, 16}, {DType::kInt32, 0, 32},   {DType::kInt64, 0, 64},
                  {DType::kUInt8, 1, 8}};
  for (const auto& [dtype, code, bits] : expected) {
    EXPECT_EQ(ToDLPack(dtype).code, code) << Name(dtype);
    EXPECT_EQ(ToDLPack(dtype).bits, bits) << Name(dtype);
    EXPECT_EQ(SizeOf(dtype) * 8, static_cast<size_t>(bits)) << Name(dtype);
  }
}

}  // namespace
}  // namespace sluice

// The device contract of sums of several arrays: every bit is right. Floats are added in the order of the
// arrays, 16-bit floats in float32 with one rounding of the result, integers modulo 2^bits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "contract/device/typed_test.h"

namespace sluice::testing {
namespace {

class DeviceAddUp : public TypedDeviceTest {
 protected:
  void Try(DType type, const std::vector<Words>& arrays, uint32_t exponent = 0) {
    SCOPED_TRACE(std::to_string(arrays.size()) + " arrays of " + std::to_string(arrays.front().size()) + " " +
                 std::string(Name(type)) + ", exponent " + std::to_string(exponent));
    Clear();
    std::vector<const void*> pointers;
    for (const Words& words : arrays) pointers.push_back(InputOf(type, words));
    const auto n = static_cast<int64_t>(arrays.front().size());
    void* const out = InOutOf(type, n);
    Run([&](Kernels& k) {
      k.AddUp({.dtype = type, .arrays = pointers, .exponent = exponent, .out = out, .n = n});
    });
    Words expected;
    for (size_t i = 0; i < arrays.front().size(); ++i) expected.push_back(SumOf(type, arrays, i, exponent));
    ExpectSame(type, ReadWords(type, out), expected);
  }

 private:
  static uint64_t SumOf(DType type, const std::vector<Words>& arrays, size_t i, uint32_t exponent) {
    uint64_t integers = 0;
    for (const Words& words : arrays) integers += words[i];
    if (!IsFloating(type)) return integers & BitsOf(type);
    const Format f = FormatOf(type);
    // float64 holds the exact sum of two numbers of float32, or rounds so that float32 gets the right one.
    const Format wide = FormatOf(type == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);
    double sum = ValueOf(f, arrays.front()[i]);
    for (size_t array = 1; array < arrays.size(); ++array)
      sum = ValueOf(wide, WordOf(wide, sum + ValueOf(f, arrays[array][i])));
    return WordOf(f, std::ldexp(sum, -static_cast<int>(exponent)));
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceAddUp);

TEST_P(DeviceAddUp, AnyNumberOfArraysAndElements) {
  for (const DType type : kAllDTypes)
    for (const size_t terms : {1, 2, 3, 9, 17})
      for (const int64_t n : {0, 1, 7, 64, 1023, 1025, terms == 3 ? 70'001 : 2049}) {
        std::vector<Words> arrays;
        while (arrays.size() < terms)
          arrays.push_back(IsFloating(type) ? RandomNumbers(type, n, -1, 1) : RandomWords(type, n));
        Try(type, arrays);
      }
}

// Any bits: subnormal numbers, infinities and NaN among them.
TEST_P(DeviceAddUp, AnyBits) {
  for (const DType type : kAllDTypes)
    Try(type, {RandomWords(type, 100'003), RandomWords(type, 100'003), RandomWords(type, 100'003)});
}

// A small number that is added to a large one is lost; one that is added before the large ones is not.
TEST_P(DeviceAddUp, FloatsAreAddedInTheOrderOfTheArrays) {
  for (const DType type : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    const Format f = FormatOf(type);
    const double large = std::ldexp(1.0, type == DType::kFloat64 ? 60 : 30);
    const auto array = [&](double value) { return Words(100, WordOf(f, value)); };
    Try(type, {array(1), array(large), array(-large)});
    Try(type, {array(large), array(-large), array(1)});
  }
}

TEST_P(DeviceAddUp, NegativeZerosMakeANegativeZero) {
  for (const DType type : kFloatingTypes) {
    const Format f = FormatOf(type);
    Try(type, {Words(33, f.sign()), Words(33, f.sign())});
    Try(type, {Words(33, f.sign()), Words(33, 0)});
  }
}

// Four times 60,000 is beyond float16, and a quarter of the sum is not.
TEST_P(DeviceAddUp, AnExponentKeepsTheSumOfHalvesInRange) {
  const Format f = FormatOf(DType::kFloat16);
  const std::vector<Words> large(4, Words(1001, WordOf(f, 60'000)));
  Try(DType::kFloat16, large, 2);
  Try(DType::kFloat16, large);  // infinity
  for (const DType type : {DType::kFloat16, DType::kBFloat16})
    for (const uint32_t exponent : {1, 3, 8})
      Try(type, {RandomWords(type, 5000), RandomWords(type, 5000), RandomWords(type, 5000)}, exponent);
}

}  // namespace
}  // namespace sluice::testing

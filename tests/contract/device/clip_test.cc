// The device contract of what clipping is made of: sums of squares, against float64 and exact sums, and
// scaling, which is right in every bit.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "contract/device/typed_test.h"

namespace sluice::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kCounts[] = {0, 1, 7, 8, 9, 2047, 2049, 32'767, 32'768, 32'769, 200'003};

class DeviceClip : public TypedDeviceTest {
 protected:
  double SumOfSquares(DType type, const Words& words) {
    Clear();
    const void* const a = InputOf(type, words);
    double* const sum = Output<double>(1);
    Run([&](Kernels& k) {
      k.SumOfSquares({.dtype = type, .a = a, .sum = sum, .n = static_cast<int64_t>(words.size())});
    });
    return Read(sum).front();
  }
  void TryScale(DType type, const Words& words, double factor) {
    SCOPED_TRACE(std::to_string(words.size()) + " " + std::string(Name(type)) + " times " +
                 std::to_string(factor));
    Clear();
    void* const a = InOutOf(type, words);
    Run([&](Kernels& k) {
      k.Scale({.dtype = type, .a = a, .factor = factor, .n = static_cast<int64_t>(words.size())});
    });
    const Format f = FormatOf(type);
    const Format through = FormatOf(type == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);
    Words expected;
    for (const uint64_t word : words)
      expected.push_back(WordOf(f, ValueOf(through, WordOf(through, ValueOf(f, word) * factor))));
    ExpectSame(type, ReadWords(type, a), expected);
  }
};
SLUICE_ON_EVERY_DEVICE(DeviceClip);

TEST_P(DeviceClip, SumOfSquaresOfAnyNumberOfElements) {
  for (const DType type : kFloatingTypes)
    for (const int64_t n : kCounts) {
      SCOPED_TRACE(std::to_string(n) + " " + std::string(Name(type)));
      const Words words = RandomNumbers(type, n, -3, 5);
      double expected = 0;
      for (const uint64_t word : words) expected += std::pow(ValueOf(FormatOf(type), word), 2);
      EXPECT_NEAR(SumOfSquares(type, words), expected, 1e-12 * expected);
    }
}

// Small whole numbers have exact sums, whatever the order.
TEST_P(DeviceClip, SumOfSquaresOfWholeNumbersIsExact) {
  for (const DType type : kFloatingTypes) {
    Words words;
    double expected = 0;
    for (const int64_t value : Whole<int64_t>(150'001, -100, 100)) {
      words.push_back(WordOf(FormatOf(type), static_cast<double>(value)));
      expected += static_cast<double>(value * value);
    }
    EXPECT_EQ(SumOfSquares(type, words), expected) << Name(type);
  }
}

TEST_P(DeviceClip, SumOfSquaresBeyondFloat32AndOfWhatIsNotFinite) {
  const auto of = [&](DType type, std::initializer_list<double> values) {
    Words words;
    for (const double value : values) words.push_back(WordOf(FormatOf(type), value));
    return SumOfSquares(type, words);
  };
  EXPECT_DOUBLE_EQ(of(DType::kFloat32, {0x1p100, 0x1p100}), 0x1p201);
  EXPECT_DOUBLE_EQ(of(DType::kBFloat16, {0x1p-100}), 0x1p-200);
  EXPECT_EQ(of(DType::kFloat64, {1e200, 1}), kInf);
  EXPECT_EQ(of(DType::kFloat16, {1, kInf, -kInf}), kInf);
  for (const DType type : kFloatingTypes) EXPECT_TRUE(std::isnan(of(type, {1, std::nan(""), 2})));
}

TEST_P(DeviceClip, ScaleOfAnyNumberOfElements) {
  for (const DType type : kFloatingTypes)
    for (const int64_t n : kCounts) TryScale(type, RandomNumbers(type, n, -3, 5), 1.0 / 3);
}

// A factor below float32's least number has products that float32 holds.
TEST_P(DeviceClip, ScaleByAnyFactorOfAnyBits) {
  for (const DType type : kFloatingTypes)
    for (const double factor : {0.0, 1.0, -0.75, 1e-50, 1e50, 1e300, 0x1p-30})
      TryScale(type, RandomWords(type, 10'007), factor);
}

}  // namespace
}  // namespace sluice::testing

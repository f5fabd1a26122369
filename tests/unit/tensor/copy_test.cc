// Tests NDArray::CopyTo: between contexts, views and types, with each rounding done once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "base/strings.h"
#include "sluice/ndarray.h"
#include "tensor/types/half.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CopyTest, MovesBetweenContexts) {
  const NDArray a = NDArray::From({1, 2, 3, 4}, {2, 2});
  const NDArray moved = a.AsInContext(cpu(1));
  EXPECT_EQ(moved.context(), cpu(1));
  EXPECT_EQ(moved.shape(), a.shape());
  EXPECT_FALSE(moved.SharesStorage(a));
  EXPECT_THAT(moved.ToVector(), ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(a.AsInContext(cpu(0)).SharesStorage(a));
  EXPECT_FALSE(a.AsInContext(cpu_pinned(0)).SharesStorage(a));
}

TEST(CopyTest, ReachesIntoViews) {
  const NDArray a = NDArray::From({1, 2, 3, 4, 5, 6}, {3, 2});
  NDArray b({4, 2}, cpu(1));
  NDArray rows = b.SliceRows(1, 3);
  a.SliceRows(1, 3).CopyTo(&rows);
  EXPECT_THAT(b.ToVector(), ElementsAre(0, 0, 3, 4, 5, 6, 0, 0));
}

TEST(CopyTest, BetweenOverlappingViewsIsAsIfThroughOther) {
  constexpr int64_t kRows = 50000;
  std::vector<float> values(kRows);
  std::iota(values.begin(), values.end(), 0.0f);
  for (const int64_t shift : {1, 3, 1000}) {
    NDArray a = NDArray::From(std::span<const float>(values), {kRows});
    NDArray later = a.SliceRows(shift, kRows);
    a.SliceRows(0, kRows - shift).CopyTo(&later);
    std::vector<float> expected = values;
    std::copy_backward(values.begin(), values.end() - shift, expected.end());
    EXPECT_EQ(a.ToVector(), expected) << shift;
  }
}

TEST(CopyTest, ConvertsBetweenFloatingTypes) {
  const std::vector<double> values = {0, 1, -2.5, 0.1, 65504, 1e-7, 3e38};
  const NDArray wide = NDArray::From(std::span<const double>(values), {7});
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    const NDArray back = wide.AsType(dtype).AsType(DType::kFloat64);
    const double relative = dtype == DType::kFloat64    ? 0
                            : dtype == DType::kFloat32  ? std::ldexp(1, -24)
                            : dtype == DType::kBFloat16 ? std::ldexp(1, -8)
                                                        : std::ldexp(1, -11);
    // Half a unit in the last place of the smallest halves; the others are normal here.
    const double absolute = dtype == DType::kFloat16 ? std::ldexp(1, -25) : 0;
    const std::vector<double> actual = back.ToVector<double>();
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::kFloat16 && values[i] > 65520) {
        EXPECT_EQ(actual[i], HUGE_VAL);
      } else {
        EXPECT_NEAR(actual[i], values[i], std::max(std::fabs(values[i]) * relative, absolute)) << Name(dtype);
      }
    }
  }
}

// Long enough for several threads and for the loops' ends; dtype_test holds the scalar conversions to a
// reference.
TEST(CopyTest, ConvertsEveryElementOfALongArray) {
  std::vector<float> values(200'003);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(static_cast<float>(i % 4099) - 2049.5f, static_cast<int>(i % 31) - 20);
  const NDArray array = NDArray::From(std::span<const float>(values), {200'003});
  const NDArray halves = array.AsType(DType::kFloat16), bfloats = array.AsType(DType::kBFloat16);
  const auto half_bits = halves.ToVector<Half>();
  const auto bfloat_bits = bfloats.ToVector<BFloat16>();
  const auto from_halves = halves.AsType(DType::kFloat32).ToVector();
  const auto from_bfloats = bfloats.AsType(DType::kFloat32).ToVector();
  const auto doubles = array.AsType(DType::kFloat64).ToVector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(half_bits[i].bits, HalfFromFloat(values[i]).bits) << i;
    ASSERT_EQ(bfloat_bits[i].bits, BFloat16FromFloat(values[i]).bits) << i;
    ASSERT_EQ(from_halves[i], ToFloat(half_bits[i])) << i;
    ASSERT_EQ(from_bfloats[i], ToFloat(bfloat_bits[i])) << i;
    ASSERT_EQ(doubles[i], values[i]) << i;
  }
}

// Through float32 these would be rounded twice: first onto the tie, then to even.
TEST(CopyTest, RoundsFloat64ToSixteenBitsOnce) {
  const double above = std::ldexp(1, -40);
  const double half_tie = 1 + std::ldexp(1, -11), bfloat_tie = 1 + std::ldexp(1, -8);
  const std::vector<double> values = {half_tie - above,   half_tie,   half_tie + above,
                                      bfloat_tie - above, bfloat_tie, bfloat_tie + above};
  const NDArray wide = NDArray::From(std::span<const double>(values), {6});
  const std::vector<Half> halves = wide.AsType(DType::kFloat16).ToVector<Half>();
  const std::vector<BFloat16> bfloats = wide.AsType(DType::kBFloat16).ToVector<BFloat16>();
  EXPECT_EQ(halves[0].bits, 0x3c00);
  EXPECT_EQ(halves[1].bits, 0x3c00);
  EXPECT_EQ(halves[2].bits, 0x3c01);
  EXPECT_EQ(bfloats[3].bits, 0x3f80);
  EXPECT_EQ(bfloats[4].bits, 0x3f80);
  EXPECT_EQ(bfloats[5].bits, 0x3f81);
  NDArray filled({1}, cpu(), DType::kFloat16);
  filled.Fill(half_tie + above);
  EXPECT_EQ(filled.ToVector<Half>()[0].bits, 0x3c01);
}

TEST(CopyTest, IntegersConvertToFloat32Alone) {
  const NDArray a({2}, cpu(), DType::kInt32);
  EXPECT_THAT(a.AsType(DType::kFloat32).ToVector(), ElementsAre(0, 0));
  for (const DType type : {DType::kFloat64, DType::kBFloat16, DType::kInt64})
    EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { a.AsType(type); }),
                HasSubstr(StrCat("int32 does not convert to ", Name(type))));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [] { NDArray({2}).AsType(DType::kInt32); }),
              HasSubstr("float32 does not convert to int32"));
  NDArray b({3});
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { NDArray({2}).CopyTo(&b); }),
              HasSubstr("shapes [2] and [3] differ"));
  EXPECT_THAT(a.Copy().ToVector<int32_t>(), ElementsAre(0, 0));
}

}  // namespace
}  // namespace sluice

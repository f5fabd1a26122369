// Tests kvstore/update/exact_sum.h: a sum in any order and grouping has the same bits, those of the exact sum
// rounded once. The reference adds in 128-bit integers.
#include "kvstore/update/exact_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "tensor/types/half.h"

namespace sluice::kvstore {
namespace {

using compression::Encoded;
using ::testing::Each;

template <typename T>
Encoded FrameOf(const std::vector<T>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)};
}
template <typename T>
std::vector<Encoded> FramesOf(const std::vector<std::vector<T>>& arrays) {
  std::vector<Encoded> frames;
  for (const auto& array : arrays) frames.push_back(FrameOf(array));
  return frames;
}
template <typename T>
std::vector<T> Taken(ExactSum* sum, size_t n) {
  std::vector<T> values(n);
  std::memcpy(values.data(), sum->Take(), n * sizeof(T));
  return values;
}

__extension__ using Int128 = __int128;

// Arrays whose elements are of all sizes, so that a plain sum depends on its order.
template <typename T>
std::vector<std::vector<T>> OfAllSizes(Rng& rng, size_t count, size_t n, double least, double most) {
  std::vector<std::vector<T>> arrays(count, std::vector<T>(n));
  for (auto& array : arrays)
    for (T& v : array) v = static_cast<T>(rng.Normal() * std::exp2(rng.Uniform(least, most)));
  return arrays;
}

// Added in a random order, in groups of about `group`; the last ones as the sum is taken.
std::vector<float> SumInAnyOrder(Rng& rng, const std::vector<std::vector<float>>& arrays, uint64_t group) {
  const size_t n = arrays.front().size();
  ExactSum sum(DType::kFloat32, n);
  std::vector<Encoded> together;
  for (const uint64_t i : rng.Permutation(arrays.size())) {
    together.push_back(FrameOf(arrays[i]));
    if (rng.Below(group) > 0) continue;
    sum.Add(together);
    together.clear();
  }
  std::vector<float> values(n);
  std::memcpy(values.data(), sum.Take(together), n * sizeof(float));
  return values;
}
// The same bits each time.
std::vector<float> SumInManyOrders(Rng& rng, const std::vector<std::vector<float>>& arrays, uint64_t group) {
  const std::vector<float> first = SumInAnyOrder(rng, arrays, group);
  for (int again = 1; again < 20; ++again) EXPECT_EQ(SumInAnyOrder(rng, arrays, group), first);
  return first;
}

TEST(ExactSum, AnyOrderInAnyGroupsGivesTheSameBits) {
  Rng rng(1);
  constexpr size_t kArrays = 70, kElements = 1300;
  const auto arrays = OfAllSizes<float>(rng, kArrays, kElements, -60, 25);
  SumInManyOrders(rng, arrays, 4);
  std::vector<float> first;
  size_t plain_sums = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<float> plain(kElements);
    for (const uint64_t i : rng.Permutation(kArrays))
      for (size_t e = 0; e < kElements; ++e) plain[e] += arrays[i][e];
    if (round == 0) first = plain;
    plain_sums += plain != first;
  }
  EXPECT_GT(plain_sums, 10u) << "these arrays would not show that the order matters";
}

// Half a unit in the last place from the sum in whole multiples of 2^-`bits`, which 128 bits hold.
void ExpectExact(const std::vector<std::vector<float>>& arrays, int bits, const std::vector<float>& sums) {
  for (size_t i = 0; i < sums.size(); ++i) {
    Int128 exact = 0;
    for (const auto& array : arrays)
      exact += static_cast<Int128>(std::ldexp(static_cast<long double>(array[i]), bits));
    const long double reference = std::ldexp(static_cast<long double>(exact), -bits);
    EXPECT_LE(std::abs(sums[i] - reference), std::abs(reference) * 0x1.00001p-24L) << i;
  }
}

TEST(ExactSum, IsTheExactSumRoundedOnce) {
  Rng rng(2);
  constexpr size_t kArrays = 303, kElements = 513;
  struct Sizes {
    double least, most;  // powers of 2
    int bits;            // numbers that need more are rare and lose something to it
  };
  for (const auto& [least, most, bits] : {Sizes{-30, 25, 66}, Sizes{-20, 10, 70}, Sizes{-60, 10, 100},
                                          Sizes{-10, -5, 80}, Sizes{-70, -40, 120}}) {
    SCOPED_TRACE(least);
    const auto arrays = OfAllSizes<float>(rng, kArrays, kElements, least, most);
    ExactSum sum(DType::kFloat32, kElements);
    sum.Add(FramesOf(arrays));
    ExpectExact(arrays, bits, Taken<float>(&sum, kElements));
  }
}

// Which places of the expansion a sum needs is found out as numbers come.
TEST(ExactSum, LargeAndSmallNumbersMayComeLate) {
  Rng rng(5);
  constexpr size_t kElements = 1100;
  std::vector<std::vector<float>> arrays;
  for (const auto& [least, most] : {std::pair{-10, 5}, {-50, -30}, {15, 25}, {-5, 0}}) {
    for (auto& array : OfAllSizes<float>(rng, 6, kElements, least, most)) arrays.push_back(std::move(array));
  }
  for (size_t i = 0; i < kElements; i += 3) arrays[i % arrays.size()][i] = 0;
  ExpectExact(arrays, 90, SumInManyOrders(rng, arrays, 2));
}

// As gradients are: of about one size but for a few, of which some are whole zeros.
TEST(ExactSum, AFewNumbersOfOtherSizes) {
  Rng rng(6);
  constexpr size_t kElements = 5000, kArrays = 70;
  auto arrays = OfAllSizes<float>(rng, kArrays, kElements, -7, -5);
  for (const float odd : {0.0f, 1e-12f, -3e-9f, 2e6f, -1e3f, 0x1p-60f})
    for (int i = 0; i < 4; ++i) arrays[rng.Below(kArrays)][rng.Below(kElements)] = odd;
  ExpectExact(arrays, 95, SumInManyOrders(rng, arrays, 20));
}

TEST(ExactSum, NumbersAtTheBoundsOfThePlacesAreWhole) {
  for (const float bound : {0x1p19f, 0x1p-19f, 0x1p-33f, 0x1p-57f}) {
    for (const float value : {bound, std::nextafter(bound, 0.0f), std::nextafter(bound, 1e9f)}) {
      for (const size_t count : {1, 4, 5}) {
        ExactSum sum(DType::kFloat32, 1);
        const std::vector<float> one{value}, minus{-value / 2};
        sum.Add(std::vector<Encoded>(count, FrameOf(one)));
        sum.Add(std::vector<Encoded>(count, FrameOf(minus)));
        EXPECT_EQ(Taken<float>(&sum, 1)[0], static_cast<float>(count) * value / 2) << value << " " << count;
      }
    }
  }
}

TEST(ExactSum, Float64) {
  Rng rng(3);
  constexpr size_t kArrays = 100, kElements = 520;
  const auto arrays = OfAllSizes<double>(rng, kArrays, kElements, -40, 60);
  ExactSum forward(DType::kFloat64, kElements), backward(DType::kFloat64, kElements);
  auto frames = FramesOf(arrays);
  forward.Add(frames);
  std::reverse(frames.begin(), frames.end());
  backward.Add(frames);
  const auto values = Taken<double>(&forward, kElements);
  EXPECT_EQ(values, Taken<double>(&backward, kElements));
  for (size_t i = 0; i < kElements; ++i) {
    long double reference = 0;
    long double magnitude = 0;
    for (const auto& array : arrays) {
      reference += array[i];
      magnitude += std::abs(array[i]);
    }
    EXPECT_LE(std::abs(values[i] - reference), std::abs(reference) * 0x1p-52L + magnitude * 0x1p-62L);
  }
}

TEST(ExactSum, SmallNumbersBesideLargeOnesAreNotLost) {
  ExactSum sum(DType::kFloat32, 1);
  const std::vector<std::vector<float>> arrays{{0x1p57f}, {0x1p-40f}, {-0x1p57f}, {0x1p-94f}, {-0x1p-40f}};
  sum.Add(FramesOf(arrays));
  EXPECT_EQ(Taken<float>(&sum, 1)[0], 0x1p-94f);
}

TEST(ExactSum, LargeNumbersAddUpAsFloat64Does) {
  ExactSum sum(DType::kFloat32, 2);
  const std::vector<std::vector<float>> arrays{{3e38f, 1e30f}, {3e38f, 2e30f}, {-3e38f, -3e30f}};
  sum.Add(FramesOf(arrays));
  const auto values = Taken<float>(&sum, 2);
  EXPECT_EQ(values[0], 3e38f);
  EXPECT_NEAR(values[1], 0, 3e30 * 0x1p-24);
}

TEST(ExactSum, WhatIsNotFiniteStaysSo) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::nanf("");
  ExactSum sum(DType::kFloat32, 5);
  const std::vector<std::vector<float>> arrays{{1, kInf, -kInf, kNan, kInf}, {2, 1, 5, 1, -kInf}};
  sum.Add(FramesOf(arrays));
  const auto values = Taken<float>(&sum, 5);
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[1], kInf);
  EXPECT_EQ(values[2], -kInf);
  EXPECT_TRUE(std::isnan(values[3]));
  EXPECT_TRUE(std::isnan(values[4]));
}

TEST(ExactSum, FramesAsTheyCame) {
  Rng rng(4);
  constexpr size_t kElements = 600;
  const auto arrays = OfAllSizes<float>(rng, 3, kElements, -3, 3);
  ExactSum sum(DType::kFloat32, kElements);
  std::vector<double> expected(kElements);
  // Off any alignment, and compressed.
  std::vector<std::byte> shifted(1 + kElements * sizeof(float));
  std::memcpy(shifted.data() + 1, arrays[0].data(), kElements * sizeof(float));
  sum.Add(std::array{Encoded{shifted.data() + 1, kElements * sizeof(float)}});
  for (size_t i = 0; i < kElements; ++i) expected[i] += arrays[0][i];
  std::vector<float> decoded(kElements);
  for (const Compression type : {Compression::k2Bit, Compression::kFloat16, Compression::kTopK}) {
    GradientCompression how{.type = type};
    std::vector<std::byte> bytes(compression::EncodedBytes(how, DType::kFloat32, kElements));
    std::vector<float> residual(kElements);
    compression::Encode(how, DType::kFloat32, FrameOf(arrays[1]).data, kElements, residual.data(),
                        bytes.data());
    const Encoded frame{bytes.data(), bytes.size(), type};
    sum.Add(std::array{frame});
    compression::Decode(frame, DType::kFloat32, 0, kElements, decoded.data());
    for (size_t i = 0; i < kElements; ++i) expected[i] += decoded[i];
  }
  const auto values = Taken<float>(&sum, kElements);
  for (size_t i = 0; i < kElements; ++i) EXPECT_EQ(values[i], static_cast<float>(expected[i]));
}

TEST(ExactSum, SixteenBitFloatsAreSummedInFloat32) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const std::vector<float> values(40, 0.25f);
    std::vector<std::byte> bytes(2 * values.size());
    dtype == DType::kFloat16 ? FloatToHalf(values.data(), bytes.data(), values.size())
                             : FloatToBFloat16(values.data(), bytes.data(), values.size());
    ExactSum sum(dtype, values.size());
    // Beyond what a 16-bit float could count up to in such steps.
    const std::vector<Encoded> frames(10000, Encoded{bytes.data(), bytes.size()});
    sum.Add(frames);
    EXPECT_THAT(Taken<float>(&sum, values.size()), Each(2500));
  }
}

TEST(ExactSum, WholeNumbersWrap) {
  ExactSum bytes(DType::kUInt8, 3);
  const std::vector<std::vector<uint8_t>> arrays{{200, 1, 255}, {100, 1, 1}, {0, 1, 0}};
  bytes.Add(FramesOf(arrays));
  EXPECT_EQ(Taken<uint8_t>(&bytes, 3), (std::vector<uint8_t>{44, 3, 0}));

  ExactSum longs(DType::kInt64, 1);
  const std::vector<std::vector<int64_t>> large{{INT64_MAX}, {1}};
  for (const auto& one : large) longs.Add(std::array{FrameOf(one)});
  EXPECT_EQ(Taken<int64_t>(&longs, 1)[0], INT64_MIN);

  ExactSum ints(DType::kInt32, 700);
  const std::vector<int32_t> ones(700, 1);
  ints.Add(std::vector<Encoded>(9, FrameOf(ones)));
  EXPECT_THAT(Taken<int32_t>(&ints, 700), Each(9));
}

TEST(ExactSum, BeginsAnewOnceItWasTaken) {
  ExactSum sum(DType::kFloat32, 600);
  const std::vector<float> ones(600, 1), twos(600, 2);
  EXPECT_THAT(Taken<float>(&sum, 600), Each(0));
  sum.Add(std::array{FrameOf(ones), FrameOf(twos)});
  sum.Add({});
  EXPECT_THAT(Taken<float>(&sum, 600), Each(3));
  sum.Add(std::array{FrameOf(twos)});
  EXPECT_THAT(Taken<float>(&sum, 600), Each(2));
  EXPECT_THAT(Taken<float>(&sum, 600), Each(0));
}

}  // namespace
}  // namespace sluice::kvstore

// Tests NDArray: values of every type, views, arithmetic in float32, and errors for what does not fit.
#include "sluice/ndarray.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "tensor/types/half.h"
#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(NDArrayTest, StartsWithZerosOfEveryType) {
  for (const DType dtype : kAllDTypes) {
    const NDArray array({3, 2}, cpu(1), dtype);
    EXPECT_EQ(array.dtype(), dtype);
    EXPECT_EQ(array.context(), cpu(1));
    EXPECT_EQ(array.shape(), (Shape{3, 2}));
    EXPECT_EQ(array.size(), 6);
  }
  EXPECT_THAT(NDArray({3}, cpu(), DType::kInt64).ToVector<int64_t>(), ElementsAre(0, 0, 0));
  EXPECT_THAT(NDArray({3}).ToVector(), ElementsAre(0, 0, 0));
  EXPECT_THAT(NDArray(Shape{}).ToVector(), ElementsAre(0));
}

template <typename T>
void ExpectRoundTrip(std::initializer_list<T> values) {
  const std::vector<T> given(values);
  const NDArray array = NDArray::From(std::span<const T>(given), {static_cast<int64_t>(given.size())});
  EXPECT_EQ(array.dtype(), DTypeOf<T>::value);
  EXPECT_EQ(array.ToVector<T>(), given);
}

TEST(NDArrayTest, KeepsValuesOfEveryTypeToTheBit) {
  ExpectRoundTrip<float>({1.5f, -0.0f, 3e38f});
  ExpectRoundTrip<double>({1e300, 0.1, -7});
  ExpectRoundTrip<int32_t>({INT32_MIN, 0, INT32_MAX});
  ExpectRoundTrip<int64_t>({INT64_MIN, (int64_t{1} << 53) + 1, INT64_MAX});
  ExpectRoundTrip<uint8_t>({0, 127, 255});
  const Half halves[] = {{0x3c00}, {0x0001}, {0xfbff}};
  const std::vector<Half> back = NDArray::From(std::span<const Half>(halves), {3}).ToVector<Half>();
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(back[i].bits, halves[i].bits);
}

TEST(NDArrayTest, WholeTypesRefuseWhatTheyCannotHold) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [dtype, value] : {std::pair(DType::kUInt8, 256.0),
                                     {DType::kUInt8, -1.0},
                                     {DType::kInt32, 0x1p31},
                                     {DType::kInt64, 0x1p63},
                                     {DType::kInt64, nan},
                                     {DType::kInt32, nan}}) {
    NDArray array({2}, cpu(0), dtype);
    EXPECT_THROW(array.Fill(value), Error) << Name(dtype) << ' ' << value;
  }
  NDArray lowest({1}, cpu(0), DType::kInt64);
  lowest.Fill(-0x1p63);
  EXPECT_EQ(lowest.ToVector<int64_t>()[0], INT64_MIN);
}

TEST(NDArrayTest, FillsEveryType) {
  const auto filled = [](DType dtype, double value) {
    NDArray array({2}, cpu(), dtype);
    array.Fill(value);
    return array;
  };
  EXPECT_THAT(filled(DType::kFloat32, 0.1).ToVector<float>(), Each(0.1f));
  EXPECT_THAT(filled(DType::kFloat64, 0.1).ToVector<double>(), Each(0.1));
  EXPECT_THAT(filled(DType::kInt32, -5).ToVector<int32_t>(), Each(-5));
  EXPECT_THAT(filled(DType::kInt64, 1e15).ToVector<int64_t>(), Each(1000000000000000));
  EXPECT_THAT(filled(DType::kUInt8, 255).ToVector<uint8_t>(), Each(255));
  EXPECT_EQ(filled(DType::kFloat16, -2).ToVector<Half>()[1].bits, 0xc000);
  EXPECT_EQ(filled(DType::kBFloat16, -2).ToVector<BFloat16>()[1].bits, 0xc000);
}

TEST(NDArrayTest, ComputesAsFloat32Does) {
  Rng rng(3);
  for (const int64_t n : {1, 7, 64, 100000}) {
    std::vector<float> a(static_cast<size_t>(n)), b(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = static_cast<float>(rng.Normal());
      b[i] = static_cast<float>(rng.Normal());
    }
    const NDArray x = NDArray::From(std::span<const float>(a), {n}),
                  y = NDArray::From(std::span<const float>(b), {n});
    NDArray added = x.Copy(), subtracted = x.Copy(), scaled = x.Copy();
    added += y;
    subtracted -= y;
    scaled *= 3;
    const std::pair<NDArray, double (*)(double, double)> cases[] = {{x + y, [](double p, double q) { return p + q; }},
                                                                    {added, [](double p, double q) { return p + q; }},
                                                                    {x - y, [](double p, double q) { return p - q; }},
                                                                    {subtracted, [](double p, double q) { return p - q; }},
                                                                    {x * y, [](double p, double q) { return p * q; }},
                                                                    {x * 3, [](double p, double) { return 3 * p; }},
                                                                    {3 * x, [](double p, double) { return 3 * p; }},
                                                                    {scaled, [](double p, double) { return 3 * p; }},
                                                                    {x + 0.5f, [](double p, double) { return p + 0.5; }},
                                                                    {-x, [](double p, double) { return -p; }}};
    for (size_t c = 0; c < std::size(cases); ++c) {
      const std::vector<float> actual = cases[c].first.ToVector();
      for (size_t i = 0; i < a.size(); ++i) {
        // One operation in float64, rounded, is the operation in float32 (Figueroa 1995).
        ASSERT_EQ(actual[i], static_cast<float>(cases[c].second(a[i], b[i])))
            << "case " << c << ", element " << i;
      }
    }
    EXPECT_EQ(x.ToVector(), a);
  }
}

TEST(NDArrayTest, CopiesOfTheHandleShareAndCopyDoesNot) {
  NDArray a = NDArray::From({1, 2}, {2});
  const NDArray same = a, other = a.Copy();
  a.Fill(7);
  EXPECT_TRUE(same.SharesStorage(a));
  EXPECT_FALSE(other.SharesStorage(a));
  EXPECT_THAT(same.ToVector(), ElementsAre(7, 7));
  EXPECT_THAT(other.ToVector(), ElementsAre(1, 2));
}

TEST(NDArrayTest, ViewsAreOfTheSameMemory) {
  NDArray a = NDArray::From({0, 1, 2, 3, 4, 5, 6, 7}, {4, 2});
  NDArray rows = a.SliceRows(1, 3);
  EXPECT_EQ(rows.shape(), (Shape{2, 2}));
  EXPECT_THAT(rows.ToVector(), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(rows.SliceRows(1, 2).ToVector(), ElementsAre(4, 5));
  rows.SliceRows(1, 2).Fill(9);
  rows.Reshape({4}).SliceRows(0, 1).Fill(8);
  EXPECT_THAT(a.ToVector(), ElementsAre(0, 1, 8, 3, 9, 9, 6, 7));
  rows += rows;
  EXPECT_THAT(a.Reshape({2, 4}).ToVector(), ElementsAre(0, 1, 16, 6, 18, 18, 6, 7));
  EXPECT_THAT(a.SliceRows(4, 4).ToVector(), IsEmpty());
}

TEST(NDArrayTest, EmptyArraysAreArrays) {
  NDArray a({0, 3}), b({0, 3}, cpu(1));
  a.Fill(1);
  a += a;
  a *= 2;
  a.CopyTo(&b);
  b.WaitToRead();
  EXPECT_THAT((a + a * a - a).ToVector(), IsEmpty());
  EXPECT_THAT(a.AsType(DType::kFloat16).ToVector<Half>(), IsEmpty());
  EXPECT_THAT(b.SliceRows(0, 0).Reshape({3, 0}).ToVector(), IsEmpty());
  EXPECT_THAT(NDArray::From(std::span<const float>(), {0}).ToVector(), IsEmpty());
}

TEST(NDArrayTest, RefusesShapesAndTypesThatDoNotFit) {
  NDArray a({2, 3}), b({3, 2}), c({2, 3}, cpu(1)), d({2, 3}, cpu(0), DType::kFloat64);
  const auto refusal = [](auto&& call) { return ErrorOf(ErrorCode::kInvalidArgument, call); };
  EXPECT_THAT(refusal([&] { a + b; }), HasSubstr("+: shapes [2, 3] and [3, 2] differ"));
  EXPECT_THAT(refusal([&] { a -= b; }), HasSubstr("-=: shapes [2, 3] and [3, 2] differ"));
  EXPECT_THAT(refusal([&] { a* c; }), AllOf(HasSubstr("cpu(0)"), HasSubstr("cpu(1)"), HasSubstr("CopyTo")));
  EXPECT_THAT(refusal([&] { a += c; }), AllOf(HasSubstr("cpu(0)"), HasSubstr("cpu(1)")));
  EXPECT_THAT(refusal([&] { a += d; }), HasSubstr("needs float32 and got float64"));
  EXPECT_THAT(refusal([&] { d *= 2; }), HasSubstr("got float64"));
  EXPECT_THAT(refusal([&] { d + d; }), HasSubstr("got float64"));
  EXPECT_THAT(refusal([&] { a.Reshape({7}); }), HasSubstr("[2, 3] has 6 elements, [7] has 7"));
  EXPECT_THAT(refusal([&] { a.SliceRows(1, 3); }), HasSubstr("rows [1, 3) of shape [2, 3]"));
  refusal([&] { a.SliceRows(-1, 1); });
  refusal([&] { a.SliceRows(2, 1); });
  refusal([&] { NDArray(Shape{}).SliceRows(0, 0); });
  EXPECT_THAT(refusal([&] { NDArray::From({1, 2, 3}, {2}); }), HasSubstr("3 values do not fill shape [2]"));
  EXPECT_THAT(refusal([&] { a.ToVector<double>(); }), HasSubstr("holds float32, not float64"));
  EXPECT_THAT(refusal([&] { a.ToScalar(); }), HasSubstr("has 6 elements"));
  EXPECT_THAT(refusal([&] { a.SetBytes({}); }), HasSubstr("0 bytes do not fill float32 [2, 3]"));
  EXPECT_EQ(NDArray::From({4}, {1, 1}).ToScalar(), 4);
}

TEST(NDArrayTest, NoArrayIsAnErrorAndNoCrash) {
  const NDArray none;
  EXPECT_FALSE(none.valid());
  none.WaitToRead();
  NDArray a({1}), to;
  const auto refusal = [](auto&& call) { return ErrorOf(ErrorCode::kFailedPrecondition, call); };
  EXPECT_THAT(refusal([&] { none.dtype(); }), HasSubstr("never made"));
  refusal([&] { none.context(); });
  refusal([&] { none.ToVector(); });
  refusal([&] { none.Copy(); });
  refusal([&] { NDArray().Fill(1); });
  refusal([&] { none.AsInContext(cpu(0)); });
  refusal([&] { NDArray(Shape{}).CopyTo(&to); });
  refusal([&] { NDArray(Shape{}) += none; });
  refusal([&] { NDArray(Shape{}) + none; });
  refusal([&] { none * 2; });
}

TEST(NDArrayTest, RefusesWhatNoMemoryHolds) {
  // 2^62 floats are 2^64 bytes: no 64-bit number holds them.
  for (const int64_t extent : {int64_t{1} << 62, int64_t{1} << 60, INT64_MAX}) {
    EXPECT_THAT(ErrorOf(ErrorCode::kResourceExhausted, [&] { NDArray array({extent}); }),
                HasSubstr("out of memory"));
  }
  EXPECT_THAT(
      ErrorOf(ErrorCode::kResourceExhausted,
              [] {
                NDArray({int64_t{1} << 40, 64});
              }),
      HasSubstr("an array [1099511627776, 64] of float32 on cpu(0): out of memory: could not allocate"));
  EXPECT_THAT(NDArray({2}).ToVector(), ElementsAre(0, 0));
}

}  // namespace
}  // namespace sluice

#include "sluice/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/expect_error.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(ShapeTest, SizeIsTheProduct) {
  EXPECT_EQ(Shape().size(), 1);
  EXPECT_EQ(Shape().ndim(), 0u);
  EXPECT_EQ((Shape{2, 3, 4}).size(), 24);
  EXPECT_EQ((Shape{2, 0, 4}).size(), 0);
  EXPECT_EQ((Shape{int64_t{1} << 31, int64_t{1} << 31}).size(), int64_t{1} << 62);
  EXPECT_EQ((Shape{64, 1, 28, 28}).ToString(), "[64, 1, 28, 28]");
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
}

TEST(ShapeTest, RefusesWhatNoArrayCanHave) {
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [] {
                        Shape({2, -1});
                      }),
              HasSubstr("[2, -1] has a negative extent"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [] {
                        Shape({int64_t{1} << 32, int64_t{1} << 31});
                      }),
              HasSubstr("[4294967296, 2147483648] has more than 2^63-1 elements"));
  EXPECT_EQ(Shape(std::vector<int64_t>(8, 1)).ndim(), 8u);
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [] { Shape(std::vector<int64_t>(9, 1)); }),
              HasSubstr("9 axes; at most 8"));
}

TEST(ShapeTest, ChangesOneAxis) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.WithExtent(1, 7), (Shape{2, 7, 4}));
  EXPECT_EQ(shape.WithExtent(1, 7).size(), 56);
  EXPECT_EQ(shape.WithAxis(0, 5), (Shape{5, 2, 3, 4}));
  EXPECT_EQ(shape.WithAxis(3, 5), (Shape{2, 3, 4, 5}));
  EXPECT_EQ(shape.WithoutAxis(0), (Shape{3, 4}));
  EXPECT_EQ(shape.WithoutAxis(2), (Shape{2, 3}));
  EXPECT_EQ(Shape{6}.WithoutAxis(0), Shape());
  EXPECT_EQ(Shape().WithAxis(0, 6), Shape{6});
  ErrorOf(ErrorCode::kInvalidArgument, [&] { shape.WithExtent(1, -1); });
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [] {
                        Shape({1, 1, 1, 1, 1, 1, 1, 1}).WithAxis(8, 1);
                      }),
              HasSubstr("9 axes; at most 8"));
}

TEST(ShapeTest, RowsOfAnEmptyArrayFitInto64BitsToo) {
  const int64_t long_axis = int64_t{1} << 40;
  EXPECT_EQ((Shape{0, long_axis}).size(), 0);
  ErrorOf(ErrorCode::kInvalidArgument, [&] { Shape({0, long_axis, long_axis}); });
  ErrorOf(ErrorCode::kInvalidArgument, [&] { Shape({long_axis, long_axis, 0}); });
}

}  // namespace
}  // namespace sluice

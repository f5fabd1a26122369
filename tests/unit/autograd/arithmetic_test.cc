// Products whose factors are rounded to bfloat16. Small whole numbers are not changed by it, and their sums
// are exact: of them everything comes out as in float32, which gradient_test.cc compares with float64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/ops.h"
#include "base/rng.h"
#include "sluice/autograd.h"
#include "sluice/error.h"
#include "tensor/devices.h"

namespace sluice {
namespace {

using ::testing::Each;
using Values = std::vector<float>;
using Operation = std::function<NDArray(const std::vector<NDArray>&)>;

void Multiply(bool in_bfloat16) {
  Devices::SetDefault(
      std::make_shared<Devices>(DevicesOptions{.cpu_threads = 2, .multiplies_bfloat16 = in_bfloat16}));
}

class ArithmeticTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    Multiply(/*in_bfloat16=*/true);
    try {
      Devices::Default()->Get(cpu(0));
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
      GTEST_SKIP() << error.what();
    }
  }
  void TearDown() override { Devices::SetDefault(nullptr); }

  int64_t UpTo(int64_t n) { return 1 + static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(n))); }
  Values WholeNumbers(const Shape& shape) {
    Values values(static_cast<size_t>(shape.size()));
    for (float& value : values) value = static_cast<float>(rng_.Below(17)) - 8;
    return values;
  }
  void ExpectAsInFloat32(const Operation& operation, const std::vector<Shape>& shapes, const Shape& out);
  void ExpectConvolutionsAsInFloat32(int64_t groups, int64_t width, int64_t columns);

  Rng rng_{static_cast<uint64_t>(GetParam())};
};

// The result and all gradients, twice: what is kept of the first must not be in the second.
std::vector<Values> Compute(const Operation& operation, const std::vector<Shape>& shapes,
                            const std::vector<Values>& inputs, const Values& head) {
  std::vector<Values> results;
  for (const float factor : {1.0f, 2.0f}) {
    std::vector<NDArray> arrays;
    for (size_t i = 0; i < shapes.size(); ++i) {
      arrays.push_back(NDArray::From(std::span<const float>(inputs[i]), shapes[i]) * factor);
      autograd::AttachGrad(arrays.back());
    }
    NDArray y;
    {
      const autograd::RecordScope record;
      y = operation(arrays);
    }
    autograd::Backward({y}, {NDArray::From(std::span<const float>(head), y.shape())});
    results.push_back(y.ToVector());
    for (const NDArray& array : arrays) results.push_back(autograd::Grad(array).ToVector());
  }
  return results;
}

void ArithmeticTest::ExpectAsInFloat32(const Operation& operation, const std::vector<Shape>& shapes,
                                       const Shape& out) {
  std::vector<Values> inputs;
  for (const Shape& shape : shapes) inputs.push_back(WholeNumbers(shape));
  const Values head = WholeNumbers(out);
  Multiply(/*in_bfloat16=*/false);
  const auto expected = Compute(operation, shapes, inputs, head);
  Multiply(/*in_bfloat16=*/true);
  EXPECT_EQ(Compute(operation, shapes, inputs, head), expected);
}

constexpr auto kBFloat16 = Arithmetic::kBFloat16;

TEST_P(ArithmeticTest, Dense) {
  const int64_t rows = UpTo(70), in = UpTo(90), units = UpTo(60);
  ExpectAsInFloat32([](const auto& v) { return ops::Dense(v[0], v[1], v[2], kBFloat16); },
                    {{rows, in}, {units, in}, {units}}, {rows, units});
  ExpectAsInFloat32([](const auto& v) { return ops::Dense(v[0], v[1], {}, kBFloat16); },
                    {{rows, in}, {units, in}}, {rows, units});
}

TEST_P(ArithmeticTest, DenseThatSeveralThreadsRound) {
  ExpectAsInFloat32([](const auto& v) { return ops::Dense(v[0], v[1], v[2], kBFloat16); },
                    {{200, 300}, {100, 300}, {100}}, {200, 100});
}

// A window that leaves `columns` results in a row of the image.
void ArithmeticTest::ExpectConvolutionsAsInFloat32(int64_t groups, int64_t width, int64_t columns) {
  const int64_t batch = UpTo(4), in = UpTo(20), filters = UpTo(24), rows = 9 + UpTo(9),
                image_width = width + columns - 1;
  const int64_t height = UpTo(3), stride = UpTo(2), pad = UpTo(2) - 1, dilation = UpTo(2);
  const ops::Window2D window{.stride_height = stride,
                             .stride_width = 1,
                             .pad_height = pad,
                             .pad_width = 0,
                             .dilation_height = dilation,
                             .dilation_width = 1};
  const int64_t out_height = (rows + 2 * pad - dilation * (height - 1) - 1) / stride + 1;
  const Shape weight = {groups * filters, in, height, width};
  const Shape x = {batch, groups * in, rows, image_width};
  const Shape y = {batch, groups * filters, out_height, columns};
  const auto conv = [&](const NDArray& image, const NDArray& filter, const NDArray& bias) {
    return ops::Conv2D(image, filter, bias, window, groups, std::nullopt, kBFloat16);
  };
  ExpectAsInFloat32([&](const auto& v) { return conv(v[0], v[1], v[2]); }, {x, weight, {groups * filters}},
                    y);
  ExpectAsInFloat32([&](const auto& v) { return conv(v[0], v[1], {}); }, {x, weight}, y);
  ExpectAsInFloat32(
      [&](const auto& v) {
        return ops::Conv2DTranspose(v[0], v[1], v[2], window, groups, rows, image_width, kBFloat16);
      },
      {y, weight, {groups * in}}, x);
}

TEST_P(ArithmeticTest, Convolution) {
  const int64_t groups = UpTo(2);
  ExpectConvolutionsAsInFloat32(groups, UpTo(5), 5 + UpTo(9));
}

TEST_P(ArithmeticTest, ConvolutionAsWideAsTheImage) {
  ExpectConvolutionsAsInFloat32(1, UpTo(20), 1);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ArithmeticTest, ::testing::Range(0, 12));

class RoundingTest : public ArithmeticTest {};

// 1 + 2^-10 has ten bits behind the point; a bfloat16 has seven.
TEST_P(RoundingTest, FactorsAreRoundedWhereThatIsAllowedAndWanted) {
  const float finer = 1 + 0x1p-10f;
  const auto filled = [&](const Shape& shape) {
    NDArray array(shape);
    array.Fill(finer);
    return array;
  };
  const auto product = [&](Arithmetic arithmetic) {
    return ops::Dense(filled({3, 4}), filled({2, 4}), {}, arithmetic).ToVector();
  };
  const auto convolution = [&](Arithmetic arithmetic) {
    return ops::Conv2D(filled({1, 4, 1, 1}), filled({2, 4, 1, 1}), {}, {}, 1, std::nullopt, arithmetic)
        .ToVector();
  };
  Multiply(/*in_bfloat16=*/true);
  EXPECT_THAT(product(kBFloat16), Each(4));
  EXPECT_THAT(convolution(kBFloat16), Each(4));
  EXPECT_THAT(product(Arithmetic::kFloat32), Each(4 * finer * finer));
  Multiply(/*in_bfloat16=*/false);
  EXPECT_THAT(product(kBFloat16), Each(4 * finer * finer));
  EXPECT_THAT(convolution(kBFloat16), Each(4 * finer * finer));
}

INSTANTIATE_TEST_SUITE_P(Once, RoundingTest, ::testing::Values(0));

}  // namespace
}  // namespace sluice

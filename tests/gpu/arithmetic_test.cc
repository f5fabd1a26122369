// A card rounds the factors of float32 products where it is told to (SLUICE_TF32_ARITHMETIC), and nowhere
// else.
#include <gtest/gtest.h>

#include "gpu/devices_of_machine.h"
#include "sluice/autograd.h"
#include "sluice/ndarray.h"
#include "sluice/ops.h"

namespace sluice::cuda {
namespace {

constexpr float kFine = 1 + 0x1p-12f;  // TensorFloat-32, which has 10 bits of mantissa, rounds it to 1

// What a layer makes of one number, with a weight of one, and the gradient of that weight.
struct Product {
  float out, grad;
  bool operator==(const Product&) const = default;
};

template <typename Layer>
Product Multiply(const Shape& shape, Layer&& layer) {
  NDArray x(shape, gpu(0)), weight(shape, gpu(0));
  x.Fill(kFine);
  weight.Fill(1);
  autograd::AttachGrad(weight);
  NDArray out;
  {
    const autograd::RecordScope record;
    out = layer(x, weight);
  }
  autograd::Backward(out);
  return {out.ToVector<float>()[0], autograd::Grad(weight).ToVector<float>()[0]};
}

TEST(Arithmetic, OfACardRoundsFactorsOfFloat32WhereItIsTold) {
  for (const bool rounds : {false, true}) {
    const DevicesOfMachine machine({}, {.multiplies_tfloat32 = rounds});
    const float expected = rounds ? 1 : kFine;
    EXPECT_EQ(Multiply({1, 1}, [](const NDArray& x, const NDArray& weight) { return ops::Dense(x, weight); }),
              (Product{expected, expected}));
    EXPECT_EQ(Multiply({1, 1, 1, 1},
                       [](const NDArray& x, const NDArray& weight) { return ops::Conv2D(x, weight); }),
              (Product{expected, expected}));
    NDArray x({1}, gpu(0));
    x.Fill(kFine);
    EXPECT_EQ((x + x).ToVector<float>()[0], 2 * kFine);  // no product of a layer
  }
}

}  // namespace
}  // namespace sluice::cuda

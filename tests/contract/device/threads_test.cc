// What holds of the kernels of cpu(i) whatever its share of threads.
#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"
#include "tensor/devices.h"
#include "tensor/kernels.h"

namespace sluice::testing {
namespace {

// They add up in an order of their own that the number of threads does not change.
TEST(CpuThreads, SumOfSquaresIsTheSameOnAnyNumberOfThreads) {
  Rng rng(7);
  std::vector<float> values(1'000'003);
  for (float& value : values) value = static_cast<float>(rng.Below(1'000'000)) * 1.7e-5f;
  const auto sum_on = [&](int threads) {
    double sum = 0;
    const auto device = MakeCpuDevice(0, {.threads = threads});
    device->stream()
        .Enqueue("kernel", {},
                 [&] {
                   device->kernels().SumOfSquares({.dtype = DType::kFloat32,
                                                   .a = values.data(),
                                                   .sum = &sum,
                                                   .n = static_cast<int64_t>(values.size())});
                 })
        .Wait();
    return sum;
  };
  const double of_one = sum_on(1);
  for (const int threads : {2, 3, 5}) EXPECT_EQ(sum_on(threads), of_one) << threads << " threads";
}

}  // namespace
}  // namespace sluice::testing

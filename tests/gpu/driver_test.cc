// What a program is told that asks for a card where the driver cannot serve this build, or lacks a card.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/runtime/machine.h"
#include "sluice/error.h"
#include "tensor/devices.h"
#include "tensor/gpus.h"

namespace sluice::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOfGpu(int id, ErrorCode code) {
  try {
    MakeGpuDevice(id);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "";
}

TEST(Driver, ThatIsTooOldIsNamedWithTheVersionThatIsNeeded) {
  const emulation::Machine machine({.driver = 12020});
  EXPECT_THAT(ErrorOfGpu(0, ErrorCode::kUnavailable),
              AllOf(HasSubstr("gpu(0)"), HasSubstr("cudaErrorInsufficientDriver"),
                    HasSubstr("the driver is for CUDA 12.2 and this build needs CUDA " +
                              std::to_string(CUDART_VERSION / 1000)),
                    HasSubstr("install a newer driver"), HasSubstr("or use cpu contexts")));
}

TEST(Driver, ThatIsNotThereIsNamed) {
  const emulation::Machine machine({.driver = 0});
  EXPECT_THAT(ErrorOfGpu(0, ErrorCode::kUnavailable),
              AllOf(HasSubstr("NVIDIA's driver is not installed"), HasSubstr("or use cpu contexts")));
}

TEST(Driver, HasFewerCardsThanThatOne) {
  const emulation::Machine machine({.cards = 2});
  EXPECT_THAT(ErrorOfGpu(2, ErrorCode::kInvalidArgument),
              AllOf(HasSubstr("gpu(2)"), HasSubstr("sees 2 GPUs"), HasSubstr("CUDA_VISIBLE_DEVICES")));
}

}  // namespace
}  // namespace sluice::cuda

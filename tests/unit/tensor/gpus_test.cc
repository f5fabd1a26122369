#include "tensor/gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "sluice/ndarray.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kGiB = uint64_t{1} << 30;

// What the kernel's driver lists: independent of CUDA.
size_t GpusOfTheDriver() {
  std::error_code none;
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none))
    count += entry.is_directory() ? 1 : 0;
  return count;
}

TEST(GpusTest, FindsNoMoreThanTheDriverLists) {
  const Gpus gpus = FindGpus();
  if (!gpus.ok()) {  // a container, or a build without CUDA, may see none of them
    EXPECT_THAT(gpus.failure().code, ::testing::AnyOf(ErrorCode::kUnimplemented, ErrorCode::kUnavailable));
    EXPECT_THAT(gpus.failure().message, HasSubstr("CUDA"));
    return;
  }
  EXPECT_GE(gpus.value().size(), 1u);
  EXPECT_LE(gpus.value().size(), GpusOfTheDriver());
  for (const GpuInfo& gpu : gpus.value()) {
    EXPECT_NE(gpu.name, "");
    EXPECT_GT(gpu.memory_bytes, kGiB);
  }
}

TEST(GpusTest, NamesADeviceWithItsMemoryRounded) {
  EXPECT_EQ((GpuInfo{"NVIDIA H200", 150'109'880'320}.ToString()), "NVIDIA H200 (140 GiB)");
  EXPECT_EQ((GpuInfo{"small", kGiB / 2 - 1}.ToString()), "small (0 GiB)");
}

TEST(GpusTest, SaysThatTheBuildHasNoCuda) {
  const Failure why = WhyNotGpu(2, Fail(ErrorCode::kUnimplemented, "this build has no CUDA"));
  EXPECT_EQ(why.code, ErrorCode::kUnimplemented);
  EXPECT_EQ(why.message, "gpu(2): this build has no CUDA; use cpu contexts (--num-devices)");
}

TEST(GpusTest, SaysWhatTheDriverSaid) {
  const Failure why = WhyNotGpu(0, Fail(ErrorCode::kUnavailable, "no driver"));
  EXPECT_EQ(why.code, ErrorCode::kUnavailable);
  EXPECT_THAT(why.message, HasSubstr("gpu(0): no driver; use cpu contexts"));
}

TEST(GpusTest, SaysWhichDevicesThereAre) {
  const Gpus two = std::vector<GpuInfo>{{"first", 8 * kGiB}, {"second", 16 * kGiB}};
  const Failure why = WhyNotGpu(2, two);
  EXPECT_EQ(why.code, ErrorCode::kNotFound);
  EXPECT_THAT(why.message, AllOf(HasSubstr("gpu(2)"), HasSubstr("gpu(0) first (8 GiB)"),
                                 HasSubstr("gpu(1) second (16 GiB)"), HasSubstr("CUDA_VISIBLE_DEVICES")));
}

TEST(GpusTest, SaysThatADeviceWhichIsThereCannotComputeYet) {
  const Gpus two = std::vector<GpuInfo>{{"first", 8 * kGiB}, {"second", 16 * kGiB}};
  const Failure why = WhyNotGpu(1, two);
  EXPECT_EQ(why.code, ErrorCode::kUnimplemented);
  EXPECT_THAT(why.message, AllOf(HasSubstr("gpu(1) is second (16 GiB)"), Not(HasSubstr("first"))));
}

}  // namespace
}  // namespace sluice

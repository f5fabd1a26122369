#include "tensor/gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "sluice/ndarray.h"

namespace sluice {
namespace {

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

TEST(GpusTest, SaysWhyThereAreNone) {
  for (const ErrorCode code : {ErrorCode::kUnimplemented, ErrorCode::kUnavailable}) {
    const Failure why = GpuUnavailable(1, Fail(code, "no driver; install one"));
    EXPECT_EQ(why.code, code);
    EXPECT_EQ(why.message, "gpu(1): no driver; install one; or use cpu contexts (--num-devices)");
  }
}

TEST(GpusTest, NamesThoseThatAreThere) {
  const Gpus two = std::vector<GpuInfo>{{"first", 8 * kGiB}, {"second", 16 * kGiB}};
  const Failure why = GpuUnavailable(7, two);
  EXPECT_EQ(why.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(why.message,
            "gpu(7): this process sees 2 GPUs, gpu(0) first (8 GiB), gpu(1) second (16 GiB); "
            "CUDA_VISIBLE_DEVICES may hide others; or use cpu contexts (--num-devices)");
}

}  // namespace
}  // namespace sluice

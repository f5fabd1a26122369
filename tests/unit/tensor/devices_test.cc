#include "tensor/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/ndarray.h"
#include "tensor/gpus.h"
#include "unit/expect_error.h"
#include "unit/tensor/gate.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(ContextTest, NamesItself) {
  EXPECT_EQ(cpu(3).ToString(), "cpu(3)");
  EXPECT_EQ(gpu().ToString(), "gpu(0)");
  EXPECT_EQ(cpu_pinned(1).ToString(), "cpu_pinned(1)");
  EXPECT_NE(cpu(0), cpu(1));
  EXPECT_NE(cpu(0), cpu_pinned(0));
}

TEST(DevicesTest, MakesEachContextOnce) {
  Devices devices;
  EXPECT_EQ(devices.Get(cpu(0)), devices.Get(cpu(0)));
  EXPECT_NE(devices.Get(cpu(0)), devices.Get(cpu(1)));
  EXPECT_NE(devices.Get(cpu(0)), devices.Get(cpu_pinned(0)));
  EXPECT_NE(devices.Get(cpu(0))->allocator(), devices.Get(cpu(1))->allocator());
}

TEST(DevicesTest, RefusesContextsThatAreNotThere) {
  Devices devices;
  const Failure no_gpu = WhyNotGpu(2, FindGpus());
  for (int attempt = 0; attempt < 2; ++attempt) {  // a refusal leaves nothing behind
    EXPECT_THAT(ErrorOf(no_gpu.code, [&] { devices.Get(gpu(2)); }), no_gpu.message);
    EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { devices.Get(cpu(-1)); }), HasSubstr("cpu(-1)"));
  }
  devices.DrainAll();
  EXPECT_THAT(ErrorOf(no_gpu.code, [] { NDArray({2}, gpu(2)); }), HasSubstr("gpu(2)"));
}

TEST(DevicesTest, DrainsEveryContext) {
  Devices devices;
  Gate gate;
  const Event behind[] = {gate.event()};
  const Event one = devices.Get(cpu(0))->stream().Enqueue("one", behind, [] {});
  const Event other = devices.Get(cpu(1))->stream().Enqueue("other", behind, [] {});
  gate.Open();
  devices.DrainAll();
  EXPECT_TRUE(one.Done());
  EXPECT_TRUE(other.Done());
}

TEST(DevicesTest, AnArrayOutlivesTheDevicesItWasMadeOn) {
  Devices::SetDefault(nullptr);
  NDArray array = NDArray::From({1, 2, 3}, {3}, cpu(1));
  Devices::SetDefault(nullptr);
  array += NDArray::From({10, 20, 30}, {3}, cpu(1));
  EXPECT_THAT(array.ToVector(), ::testing::ElementsAre(11, 22, 33));
}

}  // namespace
}  // namespace sluice

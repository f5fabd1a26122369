// Tests tensor/devices.h: contexts and the threads they share, and that arrays may outlive both.
#include "tensor/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <mutex>
#include <set>
#include <vector>

#include "autograd/ops.h"
#include "sluice/ndarray.h"
#include "tensor/access.h"
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

// A device whose system gives it no more threads.
class WithoutThreads final : public Device {
 public:
  explicit WithoutThreads(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  Stream& stream() override { return device_->stream(); }
  const std::shared_ptr<Allocator>& allocator() override { return device_->allocator(); }
  const std::shared_ptr<Allocator>& records() override { return device_->records(); }
  Kernels& kernels() override { return device_->kernels(); }
  void SetShare(const CpuShare&) override { throw Error(ErrorCode::kResourceExhausted, "no more threads"); }

 private:
  const std::shared_ptr<Device> device_;
};

TEST(DevicesTest, AContextThatCannotHaveItsShareIsMadeAnew) {
  int made = 0;
  Devices devices({.cpu_threads = 2, .wrap_device = [&made](std::shared_ptr<Device> device) {
                     return ++made == 1 ? std::make_shared<WithoutThreads>(std::move(device)) : device;
                   }});
  EXPECT_THAT(ErrorOf(ErrorCode::kResourceExhausted, [&] { devices.Get(cpu(0)); }),
              HasSubstr("no more threads"));
  EXPECT_NE(devices.Get(cpu(0)), nullptr);
  EXPECT_EQ(made, 2);
}

// The size of its team, after all that is enqueued.
int ThreadsOf(Devices& devices, Context context) {
  int threads = 0;
  devices.Get(context)->stream().Enqueue("asking", {}, [&] { threads = omp_get_max_threads(); }).Wait();
  return threads;
}

TEST(DevicesTest, ContextsShareTheThreads) {
  if (omp_get_thread_limit() < 5)
    GTEST_SKIP() << "OpenMP may have fewer threads than are counted here: OMP_THREAD_LIMIT";
  Devices devices({.cpu_threads = 5});
  EXPECT_EQ(ThreadsOf(devices, cpu(0)), 5);
  EXPECT_EQ(ThreadsOf(devices, cpu(3)), 2);
  EXPECT_EQ(ThreadsOf(devices, cpu(0)), 3);
  devices.Get(cpu_pinned(0));  // computes nothing
  EXPECT_EQ(ThreadsOf(devices, cpu(0)), 3);
  for (int i = 4; i < 10; ++i) EXPECT_EQ(ThreadsOf(devices, cpu(i)), 1);
  EXPECT_EQ(ThreadsOf(devices, cpu(0)), 1);
  devices.SetCpuThreads(16);
  EXPECT_EQ(ThreadsOf(devices, cpu(0)), 2);
}

TEST(DevicesTest, AFixedNumberOfThreadsIsNotShared) {
  if (omp_get_thread_limit() < 5)
    GTEST_SKIP() << "OpenMP may have fewer threads than are counted here: OMP_THREAD_LIMIT";
  Devices devices({.cpu_threads = 5, .threads_per_cpu_context = 3});
  devices.Get(cpu(0));
  EXPECT_EQ(ThreadsOf(devices, cpu(1)), 3);
  EXPECT_EQ(ThreadsOf(devices, cpu(0)), 3);
}

// The cores that any thread of its team may run on.
std::vector<int> CoresOf(Devices& devices, Context context) {
  std::set<int> cores;
  std::mutex mutex;
  const auto look = [&] {
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    const std::lock_guard lock(mutex);
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.insert(core);
    }
  };
  devices.Get(context)
      ->stream()
      .Enqueue("asking", {}, [&] { ForPieces(64, 1, [&](int64_t, int64_t) { look(); }); })
      .Wait();
  return {cores.begin(), cores.end()};
}

TEST(DevicesTest, ThreadsStayOnCoresOfTheirContextOnceBound) {
  Devices devices({.cpu_threads = 4});
  const std::vector<int> all = CoresOf(devices, cpu(0));
  const auto half = static_cast<ptrdiff_t>(all.size() / 2);
  if (half == 0) GTEST_SKIP() << "there is one core only: nothing can be divided";
  CoresOf(devices, cpu(1));
  EXPECT_EQ(CoresOf(devices, cpu(0)), all);
  devices.BindThreads();
  const std::vector<int> first(all.begin(), all.begin() + half), second(all.begin() + half, all.end());
  EXPECT_EQ(CoresOf(devices, cpu(0)), first);
  EXPECT_EQ(CoresOf(devices, cpu(1)), second);
  EXPECT_EQ(CoresOf(devices, cpu_pinned(0)), all);  // waits and copies: wherever there is room
  for (size_t i = 2; i < 2 * all.size(); ++i) {
    const size_t share = (all.size() + i) / (i + 1);  // the last one's, rounded up
    EXPECT_EQ(CoresOf(devices, cpu(static_cast<int>(i))).size(), share) << i;
  }
  EXPECT_EQ(CoresOf(devices, cpu(0)), std::vector{all.front()});
  EXPECT_EQ(CoresOf(devices, cpu(1)), std::vector{all.front()});
}

TEST(DevicesTest, OneBoundContextHasAllCores) {
  Devices free, bound({.binds_threads = true});
  EXPECT_EQ(CoresOf(bound, cpu(0)), CoresOf(free, cpu(0)));
}

// oneDNN's primitives are made for a number of threads.
TEST(DevicesTest, AConvolutionIsRightWhateverTheShareIs) {
  const auto devices = std::make_shared<Devices>(DevicesOptions{.cpu_threads = 4});
  Devices::SetDefault(devices);
  NDArray x({8, 3, 17, 17}), weight({5, 3, 3, 3}), bias({5});
  x.Fill(0.5);
  weight.Fill(2);
  bias.Fill(1);
  for (const int threads : {4, 1, 3}) {
    devices->SetCpuThreads(threads);
    const std::vector<float> out = ops::Conv2D(x, weight, bias, {}).ToVector();
    EXPECT_THAT(out, ::testing::Each(28)) << threads << " threads";
    EXPECT_EQ(out.size(), 8u * 5 * 15 * 15);
  }
  Devices::SetDefault(nullptr);
}

TEST(DevicesTest, RefusesContextsThatAreNotThere) {
  Devices devices;
  const Failure no_gpu = GpuUnavailable(99, FindGpus());
  for (int attempt = 0; attempt < 2; ++attempt) {  // a refusal leaves nothing behind
    EXPECT_THAT(ErrorOf(no_gpu.code, [&] { devices.Get(gpu(99)); }), no_gpu.message);
    EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { devices.Get(cpu(-1)); }), HasSubstr("cpu(-1)"));
  }
  devices.DrainAll();
  EXPECT_THAT(ErrorOf(no_gpu.code, [] { NDArray({2}, gpu(99)); }), HasSubstr("gpu(99)"));
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

// Kernels on the host: what threads, barriers, shuffles, shared memory and atomics do.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "gpu/emulation/device_language.h"

namespace sluice::emulation {
namespace {

constexpr unsigned kThreads = 64;

void RunGrid(unsigned blocks, unsigned threads, const std::function<void()>& kernel) {
  GridRunner().Run(blocks, threads, kernel);
}

TEST(Emulation, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> runs(5 * 48);
  RunGrid(5, 48, [&] {
    EXPECT_EQ(gridDim.x, 5u);
    EXPECT_EQ(blockDim.x, 48u);
    ++runs[blockIdx.x * 48 + threadIdx.x];
  });
  EXPECT_EQ(runs, std::vector<int>(5 * 48, 1));
}

TEST(Emulation, ABarrierOrdersWhatABlockWritesAndReads) {
  std::vector<float> values(kThreads);
  std::iota(values.begin(), values.end(), 0.0f);
  RunGrid(3, kThreads, [&] {
    __shared__ float shared[kThreads];
    shared[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = shared[(threadIdx.x + 1) % kThreads];
    __syncthreads();
  });
  for (unsigned i = 0; i < kThreads; ++i) EXPECT_EQ(values[i], static_cast<float>((i + 3) % kThreads));
}

TEST(Emulation, ABarrierDoesNotWaitForThreadsThatHaveEnded) {
  int passed = 0;
  RunGrid(2, kThreads, [&] {
    if (threadIdx.x % 3 == 0) return;
    __syncthreads();
    atomicAdd(&passed, 1);
  });
  EXPECT_EQ(passed, 2 * 42);
}

TEST(Emulation, ShufflesBringTheValueOfAnotherThreadOfTheWarp) {
  std::vector<double> down(kThreads), across(kThreads), first(kThreads);
  RunGrid(1, kThreads, [&] {
    const double mine = threadIdx.x * 1.5;
    down[threadIdx.x] = __shfl_down_sync(0xffffffff, mine, 3);
    across[threadIdx.x] = __shfl_xor_sync(0xffffffff, mine, 5);
    first[threadIdx.x] = __shfl_sync(0xffffffff, mine, 0);
  });
  for (unsigned i = 0; i < kThreads; ++i) {
    EXPECT_EQ(down[i], (i % 32 + 3 < 32 ? i + 3 : i) * 1.5);
    EXPECT_EQ(across[i], (i ^ 5) * 1.5);
    EXPECT_EQ(first[i], i / 32 * 32 * 1.5);
  }
}

// Some threads of a warp exchange once more than those that have ended, and the next block begins anew.
TEST(Emulation, ShufflesInARowDoNotMixTheirValues) {
  std::vector<int> sums(2 * kThreads);
  RunGrid(2, kThreads, [&] {
    int sum = 0;
    for (int round = 0; round < 5; ++round)
      sum += __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) * 10 + round, 7);
    sums[blockIdx.x * kThreads + threadIdx.x] = sum;
    if (threadIdx.x % 2 == 0) return;
    sums[blockIdx.x * kThreads + threadIdx.x] += __shfl_sync(0xffffffff, 1000, 1);
  });
  for (unsigned i = 0; i < 2 * kThreads; ++i) {
    const int seventh = static_cast<int>(i % kThreads / 32 * 32 + 7);
    EXPECT_EQ(sums[i], 5 * 10 * seventh + 10 + (i % 2 == 0 ? 0 : 1000)) << i;
  }
}

TEST(Emulation, AtomicsReturnWhatWasThere) {
  unsigned long long place = 7;
  std::vector<unsigned long long> seen(kThreads);
  RunGrid(1, kThreads, [&] { seen[threadIdx.x] = atomicCAS(&place, 7ull, 100ull + threadIdx.x); });
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 7ull), 1);
  EXPECT_GE(place, 100u);
}

class EmulationDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(EmulationDeathTest, ThreadsAtDifferentBarriersAreNamed) {
  const auto kernel = [] {
    if (threadIdx.x == 5) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  };
  EXPECT_DEATH(RunGrid(1, kThreads, kernel), "at different barriers, .*emulation_test.cu:[0-9]+ and ");
}

TEST_F(EmulationDeathTest, AThreadThatWaitsForOneThatDoesNotComeIsNamed) {
  const auto kernel = [] {
    if (threadIdx.x == 40) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  };
  EXPECT_DEATH(RunGrid(1, kThreads, kernel), "thread 0 of block 0 waits at .*for threads that do not come");
}

TEST_F(EmulationDeathTest, TheHostCallsNothingOfKernels) {
  EXPECT_DEATH(__syncthreads(), "the host calls what only kernels may call");
}

}  // namespace
}  // namespace sluice::emulation

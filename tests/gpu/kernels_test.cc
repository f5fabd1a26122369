// The kernels of a card where calls of the CUDA runtime fail.
#include "tensor/cuda/kernels.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "gpu/runtime/machine.h"
#include "sluice/error.h"
#include "unit/expect_error.h"

namespace sluice::cuda {
namespace {

// Kernels that need the workspace among them.
void ComputeAll(Kernels& k, float* values, int64_t n) {
  k.Fill({.dtype = DType::kFloat32, .out = values, .value = 1, .n = n});
  k.Combine({.alpha = 2, .a = values, .beta = 3, .b = values, .out = values, .n = n});
  k.Copy({.from = values, .to = values + 1, .bytes = static_cast<size_t>(n - 1) * sizeof(float)});
  k.SumOfRows({.a = values, .sums = values + n, .rows = n / 4, .columns = 4});
  const std::vector<const void*> arrays(20, values);
  k.AddUp({.dtype = DType::kFloat32, .arrays = arrays, .out = values + n, .n = n});
}

// Tries work on a card of its own; returns how many calls there were.
int64_t TryOn(emulation::Machine& machine, const std::function<void(Kernels&, float*)>& work) {
  float* values = nullptr;
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&values), 1 << 16), cudaSuccess);
  int64_t calls = 0;
  {
    CudaKernels kernels(stream, nullptr);
    const int64_t before = machine.calls();
    work(kernels, values);
    calls = machine.calls() - before;
  }
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaFree(values), cudaSuccess);
  EXPECT_EQ(machine.Leaks(), "");
  return calls;
}

TEST(CudaKernels, WhicheverCallFailsTheKernelThrowsAndTheNextOneWorks) {
  constexpr int64_t kCount = 8000;
  emulation::Machine machine;
  const int64_t calls = TryOn(machine, [](Kernels& k, float* values) { ComputeAll(k, values, kCount); });
  ASSERT_GT(calls, 5);
  for (int64_t call = 0; call < calls; ++call) {
    TryOn(machine, [&](Kernels& k, float* values) {
      machine.FailCall(call, cudaErrorLaunchFailure);
      bool failed = false;
      try {
        ComputeAll(k, values, kCount);
      } catch (const Error& error) {
        failed = true;
        EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
        EXPECT_NE(std::string(error.what()).find(" failed: "), std::string::npos) << error.what();
      }
      // What frees the old workspace does not throw.
      EXPECT_TRUE(failed || machine.calls() > call) << "call " << call;
      ComputeAll(k, values, kCount);
    });
  }
}

TEST(CudaKernels, ACardWithoutMemoryForAWorkspaceIsNamedAsTheReason) {
  emulation::Machine machine({.memory = 1 << 16});
  TryOn(machine, [](Kernels& k, float* values) {
    const std::string message = ErrorOf(ErrorCode::kResourceExhausted,
                                        [&] { k.Copy({.from = values, .to = values + 1, .bytes = 60'000}); });
    EXPECT_EQ(message,
              "cudaMalloc of 60000 bytes for a kernel failed: out of memory (cudaErrorMemoryAllocation)");
  });
}

}  // namespace
}  // namespace sluice::cuda

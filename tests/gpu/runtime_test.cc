// The test machine behaves as a machine with cards does, and its faults come when they are asked for.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <vector>

#include "gpu/planted_faults.h"
#include "gpu/runtime/machine.h"
#include "gpu/runtime/stream.h"

namespace sluice::emulation {
namespace {

constexpr size_t kBytes = kValues * sizeof(float);

cudaStream_t MakeStream(int card = 0) {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaSetDevice(card), cudaSuccess);
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  return stream;
}
cudaEvent_t MakeEvent() {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  return event;
}
float* Allocate(const std::vector<float>& values) {
  float* memory = nullptr;
  const size_t bytes = values.size() * sizeof(float);
  EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&memory), bytes), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(memory, values.data(), bytes, cudaMemcpyDefault), cudaSuccess);
  return memory;
}
std::vector<float> Read(const float* memory) {
  std::vector<float> values(kValues);
  EXPECT_EQ(cudaMemcpy(values.data(), memory, kBytes, cudaMemcpyDefault), cudaSuccess);
  return values;
}

TEST(TestMachine, WithoutOneThereIsNoCard) {
  int count = 7;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNoDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(TestMachine, HasTheCardsThatWereAskedFor) {
  const Machine machine({.cards = 3, .memory = 1 << 20});
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 3);
  EXPECT_EQ(cudaSetDevice(3), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  cudaDeviceProp properties;
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 2), cudaSuccess);
  EXPECT_EQ(properties.totalGlobalMem, 1u << 20);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 3), cudaErrorInvalidDevice);
}

TEST(TestMachine, AThreadsChoiceOfACardThatIsGoneIsCard0) {
  {
    const Machine machine({.cards = 3});
    EXPECT_EQ(cudaSetDevice(2), cudaSuccess);
  }
  const Machine machine;
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaSuccess);
  EXPECT_EQ(machine.Leaks(), "8 bytes of a card");
  int card = -1;
  EXPECT_EQ(cudaGetDevice(&card), cudaSuccess);
  EXPECT_EQ(card, 0);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

// With every seed: a stream that forgot to wait would read what is not written yet.
TEST(TestMachine, AStreamThatWaitsForAnEventFindsWhatWasWrittenBefore) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Machine machine({.cards = 2, .seed = seed});
    const cudaStream_t first = MakeStream(0);
    const cudaEvent_t event = MakeEvent();
    float* const values = Allocate(std::vector<float>(kValues, 1.0f));
    for (int i = 0; i < 3; ++i) Increment(first, values);
    ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
    const cudaStream_t second = MakeStream(1);
    ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
    Increment(second, values);
    ASSERT_EQ(cudaStreamSynchronize(second), cudaSuccess);
    EXPECT_EQ(Read(values), std::vector<float>(kValues, 5.0f)) << "seed " << seed;
    EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
    cudaStreamDestroy(first), cudaStreamDestroy(second), cudaEventDestroy(event), cudaFree(values);
    EXPECT_EQ(machine.Leaks(), "");
  }
}

TEST(TestMachine, AnEventIsReadyOnceItsStreamHasReachedIt) {
  const Machine machine;
  const cudaStream_t stream = MakeStream();
  const cudaEvent_t event = MakeEvent();
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess) << "an event that was never recorded";
  Guarded<bool> may_go(false);
  stream->Enqueue([&] {
    may_go.Await(
        60s, [](bool go) { return go; }, [](bool, bool) {});
  });
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  may_go.Notify([](bool& go) { go = true; });
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  cudaStreamDestroy(stream), cudaEventDestroy(event);
}

TEST(TestMachine, StreamsOfASeedHoldWorkBack) {
  int held_back = 0;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    const Machine machine({.seed = seed});
    const cudaStream_t stream = MakeStream();
    const cudaEvent_t event = MakeEvent();
    EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
    if (cudaEventQuery(event) == cudaErrorNotReady) ++held_back;
    cudaStreamDestroy(stream), cudaEventDestroy(event);
  }
  EXPECT_GT(held_back, 0);
}

TEST(TestMachine, ACardHasSoMuchMemory) {
  const Machine machine({.cards = 2, .memory = 4096});
  void *first = nullptr, *second = nullptr;
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&first, 3000), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 3000), cudaErrorMemoryAllocation);
  EXPECT_EQ(second, nullptr);
  size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 4096u - 3072u);
  EXPECT_EQ(total, 4096u);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 3000), cudaSuccess) << "another card";
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaFree(first), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
}

TEST(TestMachine, CopiesStayWithinABlock) {
  const Machine machine;
  const cudaStream_t stream = MakeStream();
  float* const values = Allocate(std::vector<float>(kValues));
  std::vector<float> host(2 * kValues);
  EXPECT_EQ(cudaMemcpyAsync(host.data(), values + 1, kBytes, cudaMemcpyDefault, stream),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(values, host.data(), 2 * kBytes, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(values + 1, 0, kBytes, stream), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(values, host.data(), kBytes, cudaMemcpyDefault, nullptr),
            cudaErrorInvalidResourceHandle);
  cudaStreamDestroy(stream), cudaFree(values);
}

TEST(TestMachine, PageableMemoryIsCopiedBeforeTheCallReturns) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Machine machine({.seed = seed});
    const cudaStream_t stream = MakeStream();
    float* const values = Allocate(std::vector<float>(kValues));
    std::vector<float> host(kValues, 3.0f);
    EXPECT_EQ(cudaMemcpyAsync(values, host.data(), kBytes, cudaMemcpyDefault, stream), cudaSuccess);
    host.assign(kValues, 4.0f);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(Read(values), std::vector<float>(kValues, 3.0f)) << "seed " << seed;
    cudaStreamDestroy(stream), cudaFree(values);
  }
}

TEST(TestMachine, ACopyOfRegisteredMemoryTakesWhatItFindsWhenItRuns) {
  const Machine machine;
  const cudaStream_t stream = MakeStream();
  float* const values = Allocate(std::vector<float>(kValues));
  std::vector<float> host(kValues, 3.0f);
  ASSERT_EQ(cudaHostRegister(host.data(), kBytes, cudaHostRegisterPortable), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(host.data() + 1, 4, cudaHostRegisterPortable),
            cudaErrorHostMemoryAlreadyRegistered);
  Guarded<bool> may_go(false);
  stream->Enqueue([&] {
    may_go.Await(
        60s, [](bool go) { return go; }, [](bool, bool) {});
  });
  EXPECT_EQ(cudaMemcpyAsync(values, host.data(), kBytes, cudaMemcpyDefault, stream), cudaSuccess);
  host.assign(kValues, 4.0f);
  may_go.Notify([](bool& go) { go = true; });
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(Read(values), std::vector<float>(kValues, 4.0f));
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaErrorHostMemoryNotRegistered);
  cudaStreamDestroy(stream), cudaFree(values);
}

TEST(TestMachine, TheCallOfANumberFailsOnceAndDoesNothing) {
  Machine machine;
  void* memory = nullptr;
  machine.FailCall(2, cudaErrorMemoryAllocation);
  const cudaStream_t stream = MakeStream();  // two calls
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaErrorMemoryAllocation);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaSuccess);
  EXPECT_EQ(machine.calls(), 4);
  machine.FailCall(0, cudaErrorUnknown);
  EXPECT_EQ(cudaFree(memory), cudaErrorUnknown);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(machine.Leaks(), "") << "what is given back is given back, whatever the call returns";
}

TEST(TestMachine, AnIllegalAddressLosesTheCardAndEveryWaitEnds) {
  Machine machine({.cards = 2});
  const cudaStream_t stream = MakeStream(0);
  float* const values = Allocate(std::vector<float>(kValues, 1.0f));
  const cudaEvent_t event = MakeEvent();
  machine.FailGrid(1);
  Increment(stream, values);
  Increment(stream, values);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaMemcpyAsync(values, values, 4, cudaMemcpyDefault, stream), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorIllegalAddress);
  const cudaStream_t other = [] {
    cudaStream_t made = nullptr;
    EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), cudaSuccess);
    return made;
  }();
  Increment(other, values);
  EXPECT_EQ(cudaStreamSynchronize(other), cudaSuccess) << "the other card works on";
  EXPECT_EQ(Read(values), std::vector<float>(kValues, 3.0f));
  cudaStreamDestroy(stream), cudaStreamDestroy(other), cudaEventDestroy(event), cudaFree(values);
  EXPECT_EQ(machine.Leaks(), "");
}

TEST(TestMachine, SaysWhatWasNotGivenBack) {
  const Machine machine;
  const cudaStream_t stream = MakeStream();
  const cudaEvent_t event = MakeEvent();
  float* const values = Allocate(std::vector<float>(kValues));
  EXPECT_EQ(machine.Leaks(), "256 bytes of a card, 1 streams, 1 events");
  cudaStreamDestroy(stream), cudaEventDestroy(event), cudaFree(values);
  EXPECT_EQ(machine.Leaks(), "");
}

}  // namespace
}  // namespace sluice::emulation

// What NCCL can show where there is one card: a communicator of one rank reduces, broadcasts and ends.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <vector>

#include "collective/nccl/communicators.h"

namespace sluice::testing {

inline void ExpectOneRankWorks() {
  constexpr size_t kCount = 1000, kBytes = kCount * sizeof(float);
  cudaStream_t stream = nullptr;
  void *from = nullptr, *to = nullptr;
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&from, kBytes), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&to, kBytes), cudaSuccess);
  {
    collective::Communicators communicators({0}, collective::LoadNccl(), 60s);
    using Kind = collective::Collective::Kind;
    for (const Kind kind : {Kind::kReduce, Kind::kBroadcast, Kind::kReduce}) {
      std::vector<float> values(kCount, 3), result(kCount, 0);
      EXPECT_EQ(cudaMemcpy(from, values.data(), kBytes, cudaMemcpyDefault), cudaSuccess);
      EXPECT_EQ(cudaMemcpy(to, result.data(), kBytes, cudaMemcpyDefault), cudaSuccess);
      const uint64_t number = communicators.Add();
      const Event end = Event::Make("the part of gpu(0)");
      communicators.Watch(number, {end});
      // The result is made in two halves, which NCCL launches together.
      const auto half = [&](size_t begin) {
        return collective::Collective{
            .kind = kind,
            .type = ncclFloat32,
            .count = kCount / 2,
            .root = 0,
            .parts = {{static_cast<float*>(from) + begin, static_cast<float*>(to) + begin, stream}}};
      };
      const collective::Collective halves[] = {half(0), half(kCount / 2)};
      communicators.Launch(number, halves);
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      EXPECT_EQ(communicators.ErrorOf(number), nullptr);
      end.Complete();
      EXPECT_EQ(cudaMemcpy(result.data(), to, kBytes, cudaMemcpyDefault), cudaSuccess);
      EXPECT_EQ(result, values);
    }
    communicators.Close();
  }
  EXPECT_EQ(cudaFree(from), cudaSuccess);
  EXPECT_EQ(cudaFree(to), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace sluice::testing

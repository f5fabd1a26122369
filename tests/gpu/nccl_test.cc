// NCCL's calls on a test machine do what NCCL's do, and its faults come when they are asked for.
#include "gpu/runtime/nccl.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <vector>

#include "gpu/runtime/machine.h"

namespace sluice::emulation {
namespace {

constexpr size_t kCount = 100, kBytes = kCount * sizeof(float);

// A rank for each card, with a stream and two arrays of the card: rank r's `in` holds r + 1, `out` zeros.
class NcclTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  struct Rank {
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
    float *in = nullptr, *out = nullptr;
  };

  NcclTest() : machine_({.cards = 3, .seed = GetParam()}), ranks_(3) {
    for (int card = 0; card < 3; ++card) {
      Rank& rank = ranks_[static_cast<size_t>(card)];
      cudaSetDevice(card);
      cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking);
      rank.in = Array(static_cast<float>(card + 1));
      rank.out = Array(0);
    }
  }
  ~NcclTest() override {
    for (const Rank& rank : ranks_) {
      if (rank.comm != nullptr) ncclCommDestroy(rank.comm);
      cudaStreamDestroy(rank.stream), cudaFree(rank.in), cudaFree(rank.out);
    }
    EXPECT_EQ(machine_.Leaks(), "");
    EXPECT_EQ(nccl_.communicators(), 0);
  }

  static float* Array(float value) {
    float* memory = nullptr;
    const std::vector<float> values(kCount, value);
    cudaMalloc(reinterpret_cast<void**>(&memory), kBytes);
    cudaMemcpy(memory, values.data(), kBytes, cudaMemcpyDefault);
    return memory;
  }
  static std::vector<float> Read(const float* memory) {
    std::vector<float> values(kCount);
    cudaMemcpy(values.data(), memory, kBytes, cudaMemcpyDefault);
    return values;
  }

  // Makes communicators of one clique, rank r on card cards[r].
  void Connect(const std::vector<int>& cards = {0, 1, 2}) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclGroupStart();
    for (int rank = 0; rank < 3; ++rank) {
      cudaSetDevice(cards[static_cast<size_t>(rank)]);
      EXPECT_EQ(ncclCommInitRankConfig(&ranks_[static_cast<size_t>(rank)].comm, 3, id, rank, &config),
                ncclInProgress);
    }
    ncclGroupEnd();
  }
  ncclResult_t ErrorOf(size_t rank) {
    ncclResult_t error = ncclSuccess;
    ncclCommGetAsyncError(ranks_[rank].comm, &error);
    return error;
  }
  // Does collective(rank, r) for every rank in one group.
  template <typename F>
  void InGroup(F&& collective) {
    ncclGroupStart();
    for (int r = 0; r < 3; ++r) EXPECT_EQ(collective(ranks_[static_cast<size_t>(r)], r), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
  }
  void AllReduce() {
    InGroup([](Rank& rank, int) {
      return ncclAllReduce(rank.in, rank.out, kCount, ncclFloat32, ncclSum, rank.comm, rank.stream);
    });
  }
  void Wait() {
    for (const Rank& rank : ranks_) EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
  }
  void AbortAll() {
    for (Rank& rank : ranks_) EXPECT_EQ(ncclCommAbort(std::exchange(rank.comm, nullptr)), ncclSuccess);
  }

  Machine machine_;
  Nccl nccl_;
  std::vector<Rank> ranks_;
};
INSTANTIATE_TEST_SUITE_P(Seeds, NcclTest, ::testing::Values(0, 1, 2, 3));

TEST_P(NcclTest, ReducesToTheRootAndBroadcastsFromIt) {
  Connect();
  EXPECT_EQ(ErrorOf(0), ncclSuccess);
  InGroup([](Rank& rank, int) {
    return ncclReduce(rank.in, rank.out, kCount, ncclFloat32, ncclSum, 1, rank.comm, rank.stream);
  });
  Wait();
  EXPECT_EQ(Read(ranks_[0].out), std::vector<float>(kCount, 0.0f));
  EXPECT_EQ(Read(ranks_[1].out), std::vector<float>(kCount, 6.0f));
  InGroup([](Rank& rank, int) {
    return ncclBroadcast(rank.out, rank.in, kCount, ncclFloat32, 1, rank.comm, rank.stream);
  });
  Wait();
  for (const Rank& rank : ranks_) EXPECT_EQ(Read(rank.in), std::vector<float>(kCount, 6.0f));
}

// Two operations of each rank in nested groups, three times in a row.
TEST_P(NcclTest, ReducesForAllInPlaceAndNothingIsIssuedBeforeTheOuterGroupEnds) {
  Connect();
  for (int round = 0; round < 3; ++round) {
    ncclGroupStart();
    for (int operation = 0; operation < 2; ++operation) {
      ncclGroupStart();
      for (const Rank& rank : ranks_)
        EXPECT_EQ(ncclAllReduce(rank.in, rank.in, kCount, ncclFloat32, ncclSum, rank.comm, rank.stream),
                  ncclSuccess);
      EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    }
    EXPECT_EQ(ErrorOf(0), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
    EXPECT_EQ(ErrorOf(0), ncclInProgress);
  }
  Wait();
  const float sum = 6 * 3 * 3 * 3 * 3 * 3;
  for (const Rank& rank : ranks_) EXPECT_EQ(Read(rank.in), std::vector<float>(kCount, sum));
}

TEST_P(NcclTest, AGroupIsInProgressUntilSomebodyHasAsked) {
  Connect();
  AllReduce();
  EXPECT_EQ(ErrorOf(0), ncclInProgress);
  EXPECT_EQ(ErrorOf(0), ncclSuccess);
  Wait();
}

TEST_P(NcclTest, ACardTwiceIsInvalidUsageOfAllRanks) {
  Connect({0, 1, 0});
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ErrorOf(rank), ncclInvalidUsage);
}

TEST_P(NcclTest, ARankThatDoesNotJoinLeavesTheOthersInProgress) {
  nccl_.StickRank(2);
  Connect();
  EXPECT_EQ(ErrorOf(0), ncclInProgress);
  EXPECT_EQ(ErrorOf(0), ncclInProgress);
  AbortAll();
}

TEST_P(NcclTest, AnOperationWhosePeerIsStuckEndsWithAnAbort) {
  Connect();
  nccl_.StickRank(1);
  AllReduce();
  cudaEvent_t event = nullptr;
  cudaSetDevice(0);
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cudaEventRecord(event, ranks_[0].stream);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  AbortAll();
  Wait();
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(Read(ranks_[0].out), std::vector<float>(kCount, 0.0f)) << "nothing was computed";
  cudaEventDestroy(event);
}

TEST_P(NcclTest, AnErrorOfOneOperationComesLaterToAllRanks) {
  Connect();
  nccl_.FailOperation(3, ncclRemoteError);
  AllReduce();
  Wait();
  EXPECT_EQ(Read(ranks_[0].out), std::vector<float>(kCount, 6.0f));
  AllReduce();
  Wait();
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ErrorOf(rank), ncclRemoteError);
}

TEST_P(NcclTest, OperationsThatDifferAreAnError) {
  Connect();
  InGroup([](Rank& rank, int r) {
    return ncclAllReduce(rank.in, rank.out, r == 1 ? kCount : kCount - 1, ncclFloat32, ncclSum, rank.comm,
                         rank.stream);
  });
  Wait();
  EXPECT_EQ(ErrorOf(2), ncclInvalidArgument);
}

}  // namespace
}  // namespace sluice::emulation

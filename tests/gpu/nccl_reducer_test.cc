// The reducer over NCCL, on a test machine: sums and broadcasts over cards that hold work back, and what
// becomes of them when a card, NCCL or a call of the runtime fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "collective/reducer.h"
#include "gpu/devices_of_machine.h"
#include "gpu/nccl_one_rank.h"
#include "gpu/runtime/nccl.h"
#include "sluice/ops.h"
#include "tensor/types/half.h"
#include "unit/expect_error.h"

namespace sluice::collective {
namespace {

using cuda::DevicesOfMachine;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kCount = 300;
constexpr Duration kMost = 1min;

NDArray Filled(double value, Context context, DType dtype = DType::kFloat32) {
  NDArray array = NDArray::Empty({kCount}, context, dtype);
  array.Fill(value);
  return array;
}
NDArray Empty(Context context, DType dtype = DType::kFloat32) {
  return NDArray::Empty({kCount}, context, dtype);
}

TEST(NcclReducer, SumsOverCardsAndBroadcastsToThem) {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    SCOPED_TRACE(seed);
    const DevicesOfMachine machine({.cards = 3, .seed = seed});
    const emulation::Nccl nccl;
    const auto reducer = MakeNcclReducer(kMost);
    std::vector<NDArray> outs;
    for (int round = 0; round < 5; ++round) {
      NDArray sum = Empty(gpu(round % 3));
      reducer->Reduce({Filled(1, gpu(0)), Filled(10, gpu(2)), Filled(round, gpu(1)), Filled(100, gpu(0))},
                      &sum);
      for (const Context context : {gpu(0), gpu(1), gpu(2), gpu(1), cpu(0)}) outs.push_back(Empty(context));
      reducer->Broadcast(sum, {outs.end() - 5, outs.end()});
    }
    for (size_t i = 0; i < outs.size(); ++i)
      EXPECT_THAT(outs[i].ToVector<float>(), Each(111.0f + static_cast<float>(i / 5))) << i;
  }
}

TEST(Communicators, OneRankReducesAndBroadcasts) {
  const DevicesOfMachine machine({.seed = 6});
  const emulation::Nccl nccl;
  testing::ExpectOneRankWorks();
}

TEST(NcclReducer, SumsEveryType) {
  const DevicesOfMachine machine({.cards = 2, .seed = 5});
  const emulation::Nccl nccl;
  const auto reducer = MakeNcclReducer(kMost);
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                            DType::kInt32, DType::kInt64, DType::kUInt8}) {
    NDArray sum = Empty(gpu(1), dtype), read = NDArray::Empty({kCount}, cpu(0), DType::kFloat32);
    reducer->Reduce({Filled(3, gpu(0), dtype), Filled(4, gpu(1), dtype), Filled(5, gpu(1), dtype)}, &sum);
    sum.CopyTo(&read);
    EXPECT_THAT(read.ToVector<float>(), Each(12.0f)) << Name(dtype);
  }
}

// 16-bit floats are added up in float32, so that a sum may leave their range before it is divided.
TEST(NcclReducer, SumsOfHalvesAreRoundedOnce) {
  const DevicesOfMachine machine({.cards = 3, .seed = 5});
  const emulation::Nccl nccl;
  const auto reducer = MakeNcclReducer(kMost);
  NDArray sum = Empty(gpu(0), DType::kFloat16);
  const std::vector<NDArray> values = {Filled(60000, gpu(0), DType::kFloat16),
                                       Filled(60000, gpu(1), DType::kFloat16),
                                       Filled(59904, gpu(2), DType::kFloat16)};
  reducer->Reduce(values, &sum, 2);
  NDArray read = Empty(cpu(0));
  sum.CopyTo(&read);
  EXPECT_THAT(read.ToVector<float>(), Each(44992.0f));  // 44,976, to the nearest multiple of 32
}

// The sums and copies of a call are launched together, but for those that would write one array twice.
TEST(NcclReducer, ManyOfACallShareGroups) {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    SCOPED_TRACE(seed);
    const DevicesOfMachine machine({.cards = 3, .seed = seed});
    const emulation::Nccl nccl;
    const auto reducer = MakeNcclReducer(kMost);
    constexpr size_t kSums = 40;
    std::vector<std::vector<NDArray>> values, outs;
    std::vector<NDArray> sums;
    for (size_t i = 0; i < kSums; ++i) {
      const DType dtype = i % 5 == 0 ? DType::kFloat16 : i % 5 == 1 ? DType::kInt32 : DType::kFloat32;
      const auto card = static_cast<int>(i % 3), other = static_cast<int>((i + 1) % 3);
      values.push_back({Filled(1, gpu(card), dtype), Filled(static_cast<double>(i), gpu(other), dtype)});
      if (i % 4 == 0) values.back().push_back(Filled(100, gpu(3 - card - other), dtype));
      sums.push_back(Empty(gpu(i % 7 == 0 ? other : card), dtype));
      outs.push_back(
          {Empty(gpu(0), dtype), Empty(gpu(1), dtype), Empty(gpu(2), dtype), Empty(cpu(0), dtype)});
    }
    outs[8][1] = outs[3][1] = Empty(gpu(1));  // the later copy stays
    const int64_t before = nccl.groups();
    std::vector<Reduction> all;
    for (size_t i = 0; i < kSums; ++i) all.push_back({values[i], &sums[i]});
    reducer->ReduceAll(all);
    std::vector<Copies> copies;
    for (size_t i = 0; i < kSums; ++i) copies.push_back({&sums[i], outs[i]});
    size_t enqueued = 0;
    reducer->BroadcastAll(copies, [&](size_t i) { EXPECT_EQ(i, enqueued++); });
    EXPECT_EQ(enqueued, kSums);
    for (size_t i = 0; i < kSums; ++i)
      for (const NDArray& out : outs[i]) {
        const size_t of = out.SharesStorage(outs[8][1]) ? 8 : i;
        EXPECT_THAT(out.AsType(DType::kFloat32).ToVector<float>(),
                    Each(static_cast<float>(1 + of + (of % 4 == 0 ? 100 : 0))))
            << i << " on " << out.context();
      }
    EXPECT_LE(nccl.groups() - before, 20);
  }
}

TEST(NcclReducer, OneCardNeedsNoCommunicator) {
  const DevicesOfMachine machine({.cards = 2});
  const emulation::Nccl nccl;
  const auto reducer = MakeNcclReducer(kMost);
  NDArray sum = Empty(gpu(1)), out = Empty(gpu(1));
  reducer->Reduce({Filled(1, gpu(1)), Filled(2, gpu(1))}, &sum);
  reducer->Broadcast(sum, {out});
  EXPECT_THAT(out.ToVector<float>(), Each(3.0f));
  EXPECT_EQ(nccl.communicators(), 0);
  NDArray elsewhere = Empty(gpu(0));
  reducer->Reduce({Filled(1, gpu(1)), Filled(2, gpu(1))}, &elsewhere);
  EXPECT_THAT(elsewhere.ToVector<float>(), Each(3.0f));
  EXPECT_EQ(nccl.communicators(), 0);
}

TEST(NcclReducer, RefusesArraysOfCpusByName) {
  const DevicesOfMachine machine({.cards = 2});
  const emulation::Nccl nccl;
  const auto reducer = MakeNcclReducer(kMost);
  NDArray sum = Empty(gpu(0));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                      [&] {
                        reducer->Reduce({Filled(1, gpu(0)), Filled(2, cpu(3))}, &sum);
                      }),
              AllOf(HasSubstr("'nccl'"), HasSubstr("cpu(3)"), HasSubstr("'device'")));
}

TEST(NcclReducer, TwoReducersOnTwoThreadsShareTheCards) {
  const DevicesOfMachine machine({.cards = 2, .seed = 8});
  const emulation::Nccl nccl;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([t] {
      const auto reducer = MakeNcclReducer(kMost);
      for (int round = 0; round < 20; ++round) {
        NDArray sum = Empty(gpu(t)), out = Empty(gpu(1 - t));
        reducer->Reduce({Filled(round, gpu(0)), Filled(t, gpu(1))}, &sum);
        reducer->Broadcast(sum, {out});
        EXPECT_THAT(out.ToVector<float>(), Each(static_cast<float>(round + t)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(nccl.communicators(), 0);
}

// --- Failures ---

// Expects that a sum over two cards fails with the error of NCCL, and that the cards themselves work on.
void ExpectNcclFails(Reducer& reducer, const std::string& why) {
  NDArray sum = Empty(gpu(0));
  reducer.Reduce({Filled(1, gpu(0)), Filled(2, gpu(1))}, &sum);
  EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { sum.WaitToRead(); }),
              AllOf(HasSubstr("NCCL failed on gpu(0), gpu(1): "), HasSubstr(why), HasSubstr("NCCL_DEBUG")));
  EXPECT_THAT((Filled(1, gpu(0)) + Filled(2, gpu(0))).ToVector<float>(), Each(3.0f));
}

TEST(NcclReducer, ACardThatDoesNotComeEndsWithAnErrorThatNamesTheCards) {
  for (const bool connected : {false, true}) {
    SCOPED_TRACE(connected);
    const DevicesOfMachine machine({.cards = 2});
    emulation::Nccl nccl;
    {
      const auto reducer = MakeNcclReducer(200ms);
      if (connected) {
        NDArray sum = Empty(gpu(0));
        reducer->Reduce({Filled(1, gpu(0)), Filled(2, gpu(1))}, &sum);
        EXPECT_THAT(sum.ToVector<float>(), Each(3.0f));
      }
      nccl.StickRank(1);
      ExpectNcclFails(*reducer, "has not ended within 0.2 s");
      nccl.StickRank(-1);
      ExpectNcclFails(*reducer, "has not ended within 0.2 s");
    }
    EXPECT_EQ(nccl.communicators(), 0);
  }
}

// A card's queue has an end: were it full behind an operation that hangs, nothing could be aborted any more.
TEST(NcclReducer, NoMoreThanTheQueueOfACardHoldsIsLaunched) {
  const DevicesOfMachine machine({.cards = 2});
  emulation::Nccl nccl;
  constexpr int kSums = 400, kMostUnderWay = 64;
  const auto reducer = MakeNcclReducer(2s);
  NDArray first = Empty(gpu(0));
  reducer->Reduce({Filled(1, gpu(0)), Filled(2, gpu(1))}, &first);
  first.WaitToRead();
  nccl.StickRank(1);
  std::vector<NDArray> sums;
  for (int i = 0; i < kSums; ++i) {
    sums.push_back(Empty(gpu(0)));
    reducer->Reduce({Filled(1, gpu(0)), Filled(2, gpu(1))}, &sums.back());
  }
  for (const NDArray& sum : sums)
    EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { sum.WaitToRead(); }), HasSubstr("within 2 s"));
  EXPECT_LE(nccl.launched(), 2 * (1 + kMostUnderWay));  // two ranks
}

TEST(NcclReducer, AllAreLaunchedWhenThoseBeforeEnd) {
  const DevicesOfMachine machine({.cards = 2, .seed = 7});
  const emulation::Nccl nccl;
  const auto reducer = MakeNcclReducer(kMost);
  NDArray sum = Empty(gpu(0));
  const std::vector<NDArray> values = {Filled(1, gpu(0)), Filled(2, gpu(1))};
  for (int i = 0; i < 200; ++i) reducer->Reduce(values, &sum);
  EXPECT_THAT(sum.ToVector<float>(), Each(3.0f));
  EXPECT_EQ(nccl.launched(), 400);
}

TEST(NcclReducer, AnErrorThatNcclReportsLaterIsTheOperations) {
  const DevicesOfMachine machine({.cards = 2, .seed = 3});
  emulation::Nccl nccl;
  const auto reducer = MakeNcclReducer(kMost);
  nccl.FailOperation(2, ncclRemoteError);
  NDArray sum = Empty(gpu(0));
  reducer->Reduce({Filled(1, gpu(0)), Filled(2, gpu(1))}, &sum);
  EXPECT_THAT(sum.ToVector<float>(), Each(3.0f));
  ExpectNcclFails(*reducer, "remote process exited");
}

// An error of a gradient is the sum's; the next sum is right.
TEST(NcclReducer, ABadGradientIsTheSumsErrorAndNoFailureOfNccl) {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    const DevicesOfMachine machine({.cards = 2, .seed = seed});
    const emulation::Nccl nccl;
    const auto reducer = MakeNcclReducer(kMost);
    for (const int bad : {0, 1, 5}) {
      const NDArray labels =
          NDArray::From(std::vector<float>(kCount, bad == 1 ? 9.0f : 1.0f), {kCount}, gpu(1));
      NDArray scores({kCount, 2}, gpu(1));
      const NDArray loss = ops::SoftmaxCrossEntropy(scores, labels);
      NDArray sum = Empty(gpu(0));
      reducer->Reduce({Filled(1, gpu(0)), loss}, &sum);
      if (bad == 1) {
        EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { sum.WaitToRead(); }), HasSubstr("label"));
      } else {
        EXPECT_NEAR(sum.ToVector<float>()[7], 1 + std::log(2.0f), 1e-5);
      }
    }
  }
}

TEST(NcclReducer, ALostCardEndsTheSumOfAll) {
  DevicesOfMachine machine({.cards = 2});
  const emulation::Nccl nccl;
  const auto reducer = MakeNcclReducer(2s);
  const NDArray good = Filled(1, gpu(0));
  NDArray sum = Empty(gpu(0));
  reducer->Reduce({good, Filled(2, gpu(1))}, &sum);
  EXPECT_THAT(sum.ToVector<float>(), Each(3.0f));
  machine->FailGrid(0);
  const NDArray lost = Filled(2, gpu(1));
  reducer->Reduce({good, lost}, &sum);
  EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { sum.WaitToRead(); }), HasSubstr("gpu(1)"));
}

float Try() {
  const auto reducer = MakeNcclReducer(5s);
  NDArray sum = Empty(gpu(1)), out = Empty(gpu(0));
  reducer->Reduce({Filled(1, gpu(0)), Filled(2, gpu(1)), Filled(3, gpu(1))}, &sum);
  reducer->Broadcast(sum, {out});
  return out.ToVector<float>()[kCount - 1];
}

TEST(NcclReducer, WhicheverCallFailsItIsAnErrorOrDoesNotMatterAndNothingHangsOrLeaks) {
  int64_t calls = 0;
  {
    DevicesOfMachine machine({.cards = 2});
    const emulation::Nccl nccl;
    EXPECT_EQ(Try(), 6);
    calls = machine->calls();
  }
  ASSERT_GT(calls, 40);
  for (int64_t call = 0; call < calls; ++call) {
    SCOPED_TRACE(call);
    DevicesOfMachine machine({.cards = 2});
    const emulation::Nccl nccl;
    machine->FailCall(call, cudaErrorMemoryAllocation);
    try {
      EXPECT_EQ(Try(), 6);
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kResourceExhausted)
          << error.what();
    }
    EXPECT_EQ(nccl.communicators(), 0);
  }
}

}  // namespace
}  // namespace sluice::collective

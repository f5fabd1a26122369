// Tests the promises that only distributed stores make: barriers of some workers, pushes that a server
// refuses, workers that leave the job while others continue, and setting the optimiser of an async store.
#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <ranges>
#include <thread>

#include "contract/weight_key.h"
#include "tensor/access.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

TEST(DistBarrier, ASetOfRanksWaitsForItsMembersAlone) {
  std::atomic<int> arrived = 0;
  Job({.type = "dist_sync", .workers = 3}).Run([&](KVStore& kv) {
    for (int i = 1; i <= 3 && kv.rank() != 1; ++i) {  // worker 1 is not a member of these barriers
      ++arrived;
      kv.Barrier({2, 0}, 20s);
      EXPECT_GE(arrived, 2 * i);
    }
    kv.Barrier();
  });
}

TEST(DistBarrier, ADeadlineNamesWhoIsMissing) {
  Job({.type = "dist_sync", .workers = 3}).Run([](KVStore& kv) {
    if (kv.rank() == 0) {
      const std::string error = ErrorOf(ErrorCode::kDeadlineExceeded, [&] { kv.Barrier({0, 2}, 300ms); });
      EXPECT_NE(error.find("of workers 0, 2"), std::string::npos) << error;
      EXPECT_NE(error.find("waiting for worker 2"), std::string::npos) << error;
    }
    kv.Barrier();
  });
}

TEST(DistBarrier, AWorkerIsNoServer) {
  Job({.type = "dist_sync", .workers = 2}).Run([](KVStore& kv) {
    const std::string error =
        ErrorOf(ErrorCode::kInvalidArgument, [&] { kv.Barrier(BarrierGroup::kServers, 20s); });
    EXPECT_NE(error.find("is not one of its members, server 0, server 1"), std::string::npos) << error;
  });
}

// An async store without an optimiser refuses pushes.
class AsyncStore : public ::testing::TestWithParam<std::string> {};

TEST_P(AsyncStore, ARefusedPushEndsWhatWaitsForItsRound) {
  Job({.type = GetParam(), .workers = 2}).Run([](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 1));
    NDArray out = Filled(kv, kShape, 0);
    // The error may reach the next call or the wait, whichever comes first.
    ExpectError(ErrorCode::kFailedPrecondition, {"weight", "SetOptimizer"}, [&] {
      kv.Push(kKey, Filled(kv, kShape, 1));
      kv.Pull(kKey, &out);
      out.WaitToRead();
    });
    const auto heard_all = [&] {
      try {
        kv.WaitAll();
        return true;
      } catch (const Error&) {
        return false;
      }
    };
    while (!heard_all()) continue;  // Finish would throw an error that no call has thrown
  });
}

// Worker 0 has left long before worker 1 pushes. Worker 0's pushes must count.
class LeavingAtOnce : public ::testing::TestWithParam<std::string> {};

TEST_P(LeavingAtOnce, WhatAWorkerPushedLastIsNotLost) {
  constexpr int kRounds = 10;
  const Shape shape{100'000};
  Job job({.type = GetParam(), .workers = 2});
  std::promise<void> left;
  job.RunShared([&](const std::shared_ptr<KVStore>& kv) {
    kv->Init(kKey, Filled(*kv, shape, 0));
    kv->SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv->Barrier();
    for (int i = 0; i < kRounds; ++i) {
      if (kv->rank() == 1 && i == kRounds / 2) left.get_future().wait_for(20s);
      kv->Push(kKey, Filled(*kv, shape, 1));
    }
    if (kv->rank() == 0) {
      job.Leave(0);
      return left.set_value();
    }
    NDArray out = Filled(*kv, shape, 0);
    kv->Pull(kKey, &out);
    EXPECT_THAT(out.ToVector(), Each(2 * kRounds));
  });
}
// The waits begin before or after worker 0 leaves; both must end with an error.
TEST_P(LeavingAtOnce, WhoWaitsForWorkerZeroHearsThatItHasLeft) {
  Job job({.type = GetParam(), .workers = 2});
  job.RunShared([&job](const std::shared_ptr<KVStore>& kv) {
    kv->Init(kKey, Filled(*kv, kShape, 0));
    kv->Barrier();
    if (kv->rank() == 0) return job.Leave(0);
    const auto has_left = HasSubstr("has left the job");
    kv->Set(kKey, Filled(*kv, kShape, 1));
    EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { kv->WaitAll(20s); }), has_left);
    EXPECT_THAT(
        ErrorOf(ErrorCode::kFailedPrecondition, [&] { kv->Init(Key("other"), Filled(*kv, kShape, 0)); }),
        has_left);
    if (GetParam() == "dist_sync") return;  // SetOptimizer of a sync store does not wait for worker 0
    EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { kv->SetOptimizer({.learning_rate = 1}); }),
                has_left);
  });
}
INSTANTIATE_TEST_SUITE_P(Stores, LeavingAtOnce, ::testing::Values("dist_sync", "dist_async"),
                         [](const auto& info) { return info.param; });

// The gradients are written only while worker 1 is leaving (or, at the earliest, a moment before), in reverse
// order of the keys.
TEST(LeavingTest, WhatIsStillBeingWrittenIsNotLost) {
  constexpr int kRounds = 3;
  const std::vector<Key> keys = {"a", "b", "c"};
  Job job({.type = "dist_sync", .workers = 2});
  job.RunShared([&](const std::shared_ptr<KVStore>& kv) {
    for (const Key& key : keys) kv->Init(key, Filled(*kv, kShape, 0));
    kv->SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv->Barrier();
    std::vector<Event> written;
    for (const Key& key : keys) {
      written.push_back(Event::Make("a slow gradient"));
      for (int i = 0; i < kRounds; ++i) {
        NDArray gradient = Filled(*kv, kShape, 1);
        ReadyToRead(gradient).Wait(20s);  // Fill must be done before SetWriter replaces its event
        SetWriter(gradient, written.back());
        kv->Push(key, gradient);
      }
    }
    const std::jthread writer([written] {
      for (const Event& each : written | std::views::reverse) {
        std::this_thread::sleep_for(50ms);
        each.Complete();
      }
    });
    if (kv->rank() == 1) return job.Leave(1);
    for (const Key& key : keys) {
      NDArray out = Filled(*kv, kShape, 0);
      kv->Pull(key, &out);
      EXPECT_THAT(out.ToVector(), Each(2 * kRounds));
    }
  });
}

TEST(LeavingTest, ABarrierWaitsForGradientsNoLongerThanItIsTold) {
  Job({.type = "dist_sync", .workers = 1}).Run([](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 0));
    const Event written = Event::Make("a slow gradient");
    NDArray gradient = Filled(kv, kShape, 1);
    ReadyToRead(gradient).Wait(20s);
    SetWriter(gradient, written);
    kv.Push(kKey, gradient);
    EXPECT_THAT(ErrorOf(ErrorCode::kDeadlineExceeded, [&] { kv.Barrier(BarrierGroup::kWorkers, 200ms); }),
                HasSubstr("push of key weight"));
    written.Complete();
    kv.Barrier(BarrierGroup::kWorkers, 20s);
  });
}

TEST(LeavingTest, AFailureThatNobodyHasHeardIsHeardByTheEnd) {
  Job job({.type = "dist_async", .workers = 1});
  job.RunShared([&](const std::shared_ptr<KVStore>& kv) {
    kv->Init(kKey, Filled(*kv, kShape, 0));
    kv->Push(kKey, Filled(*kv, kShape, 1));
  });
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { job.Flush(0); }),
              HasSubstr("push of key weight, part 0: an async store without optimiser"));
}

TEST(LeavingTest, NobodyWaitsInABarrierForWhoHasLeft) {
  Job job({.type = "dist_sync", .workers = 3});
  job.RunShared([&](const std::shared_ptr<KVStore>& kv) {
    if (kv->rank() == 0) return job.Leave(0);
    for (int again = 0; again < 2;
         ++again) {  // worker 2 may be waiting the first time; the second barrier can never be complete
      EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { kv->Barrier(BarrierGroup::kWorkers, 60s); }),
                  HasSubstr("worker 0 has left the job"));
    }
    kv->Barrier({1, 2}, 60s);
  });
}

// Worker 1 pushes right after its SetOptimizer, while worker 0's SetOptimizer may still be in flight.
TEST(AsyncOptimizer, StandsWhenSetOptimizerReturnsOnAnyWorker) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    Job({.type = "dist_async", .workers = 3}).Run([](KVStore& kv) {
      kv.Init(kKey, Filled(kv, kShape, 0));
      kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
      kv.Push(kKey, Filled(kv, kShape, 1));
      kv.WaitAll();
      kv.Barrier();
      NDArray out = Filled(kv, kShape, 0);
      kv.PullLatest({kKey}, {{out}});
      EXPECT_THAT(out.ToVector(), Each(3));
    });
  }
}

// Worker 1 never pushes, so worker 0's round never closes.
TEST(LeavingTest, WhatIsStillOpenEndsWithAnErrorAndSoDoesWhatComesAfter) {
  std::shared_ptr<KVStore> kept;
  NDArray out;
  {
    Job job({.type = "dist_sync", .workers = 2});
    job.RunShared([&](const std::shared_ptr<KVStore>& kv) {
      kv->Init(kKey, Filled(*kv, kShape, 0));
      if (kv->rank() != 0) return;
      kept = kv;
      out = Filled(*kv, kShape, 1);
      kv->PushPull(kKey, out, &out);
    });
    job.Leave(0);  // must be first: if worker 1 left first, the round would close without it
  }
  EXPECT_THAT(ErrorOf(ErrorCode::kCancelled, [&] { out.WaitToRead(); }), HasSubstr("has left"));
  EXPECT_THAT(ErrorOf(ErrorCode::kCancelled, [&] { kept->Barrier(); }), HasSubstr("has left"));
  NDArray late = NDArray::Empty(kShape, cpu(0));
  EXPECT_THAT(ErrorOf(ErrorCode::kCancelled,
                      [&] {
                        kept->Pull(kKey, &late);
                        late.WaitToRead();
                      }),
              HasSubstr("has left"));
}

// What waits for a pulled value has nothing else wait for it: the input of a step is written again while the
// step still waits for its weight.
TEST(LateRound, HoldsNoCopyUpThatDoesNotNeedIt) {
  Job({.type = "dist_sync", .workers = 2}).Run([](KVStore& kv) {
    const Shape shape = {4, 3};
    kv.Init(kKey, Filled(kv, shape, 1));
    kv.InitRowSparse(Key("rows"), shape, DType::kFloat32, {});
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    NDArray weight = Filled(kv, shape, 2), input = Filled(kv, shape, 10);
    const NDArray ids = NDArray::From(std::vector<int64_t>{1, 3}, {2}, DeviceOf(kv));
    NDArray rows = Filled(kv, {2, 3}, 5);
    if (kv.rank() == 1) kv.Barrier({0, 1});  // its pushes come late
    kv.PushPull(kKey, weight);
    kv.PushRowSparse(Key("rows"), RowSparse{ids, rows});
    NDArray pulled = Filled(kv, {2, 3}, 0);
    kv.RowSparsePull(Key("rows"), ids, &pulled);
    const NDArray output = input + weight;
    NDArray next(shape, cpu(100 + kv.rank()));  // the workers share no device
    next.Fill(20);
    next.CopyTo(&input);
    if (kv.rank() == 0) {
      EXPECT_THAT(next.AsInContext(DeviceOf(kv, 1)).ToVector(), Each(20.0f));
      kv.Barrier({0, 1});
    }
    EXPECT_THAT(output.ToVector(), Each(15.0f));
    EXPECT_THAT(input.ToVector(), Each(20.0f));
    EXPECT_THAT(pulled.ToVector(), Each(10.0f));
  });
}

INSTANTIATE_TEST_SUITE_P(Stores, AsyncStore, ::testing::Values("dist_async", "dist_device_async"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sluice::testing

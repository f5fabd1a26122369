// Tests the promises of include/sluice/kvstore.h that hold for every type of store. Each test runs once per
// type; distributed stores have two workers, which run in this process (contract/job.h).
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>

#include "base/strings.h"
#include "contract/weight_key.h"
#include "sluice/store_type.h"
#include "tensor/access.h"

namespace sluice::testing {
namespace {

std::vector<float> Repeat(float value, const Shape& shape) {
  return std::vector<float>(static_cast<size_t>(shape.size()), value);
}

class AnyStore : public ::testing::TestWithParam<std::string> {
 protected:
  bool IsAsync() const { return StoreType::Parse(GetParam()).async; }
  bool IsDist() const { return StoreType::Parse(GetParam()).distributed; }
  int workers() const { return IsDist() ? 2 : 1; }
  Job MakeJob() const { return Job({.type = GetParam(), .workers = workers()}); }
  // Initialises the key with zeros and sets an optimiser that adds pushes up: async stores take no push
  // without an optimiser.
  static void InitAccumulating(KVStore& kv, const Key& key = kKey, const Shape& shape = kShape) {
    kv.Init(key, Filled(kv, shape, 0));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
  }
  // Returns the key's value after all workers' pushes.
  static std::vector<float> Settled(KVStore& kv, const Key& key = kKey, const Shape& shape = kShape) {
    kv.WaitAll();
    kv.Barrier();
    NDArray out = Filled(kv, shape, 0);
    kv.PullLatest({key}, {{out}});
    return out.ToVector();
  }
};

TEST_P(AnyStore, SaysWhatItIs) {
  Job job = MakeJob();
  std::atomic<int> ranks = 0;
  job.Run([&](KVStore& kv) {
    EXPECT_EQ(kv.type(), GetParam());
    EXPECT_EQ(kv.num_workers(), workers());
    EXPECT_EQ(kv.NumDeadNodes(), 0);
    ranks += 1 << kv.rank();
  });
  EXPECT_EQ(ranks, (1 << workers()) - 1);
}

TEST_P(AnyStore, GoesByMxnetsNamesInEveryCase) {
  std::string upper = GetParam();
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  std::vector<std::string> names = {upper};
  if (GetParam() == "local")
    names.insert(names.end(), {"local_update_cpu", "local_allreduce_cpu", "Local_Update_CPU"});
  if (GetParam() == "device") names.emplace_back("local_allreduce_device");
  if (GetParam() == "dist_sync") names.insert(names.end(), {"dist", "Dist"});
  if (GetParam() == "dist_device_sync") names.insert(names.end(), {"dist_sync_device", "dist_device"});
  if (GetParam() == "dist_device_async") names.emplace_back("dist_async_device");
  Job job = MakeJob();
  job.RunShared([&](const std::shared_ptr<KVStore>& kv) {
    for (const std::string& name : names)
      EXPECT_EQ(job.MakeStore(kv->rank(), name)->type(), GetParam()) << name;
  });
}

TEST_P(AnyStore, RanksThatAreNoneOrNotItsOwnAreRefused) {
  MakeJob().Run([&](KVStore& kv) {
    const auto refused = [&](const std::vector<int>& ranks) {
      return ErrorOf(ErrorCode::kInvalidArgument, [&] { kv.Barrier(ranks, 20s); });
    };
    EXPECT_NE(refused({kv.rank(), workers()}).find(StrCat("there is no worker ", workers())),
              std::string::npos);
    EXPECT_NE(refused({-1}).find("there is no worker -1"), std::string::npos);
    EXPECT_NE(refused(std::vector<int>()).find("not among the ranks"), std::string::npos);
    kv.Barrier({kv.rank()}, 20s);  // a barrier of this worker alone
  });
}

TEST_P(AnyStore, ATimeoutIsPositive) {
  MakeJob().Run([](KVStore& kv) {
    for (const int64_t bad : {int64_t{0}, int64_t{-1}, INT64_MIN})
      ExpectError(ErrorCode::kInvalidArgument, {"SetTimeout: ", "must be positive"},
                  [&] { kv.SetTimeout(std::chrono::milliseconds(bad)); });
    for (const std::chrono::milliseconds good : {std::chrono::milliseconds(60000), KVStore::kNoTimeout}) {
      kv.SetTimeout(good);
      kv.Barrier();
      kv.WaitAll();
      EXPECT_EQ(kv.Agree("word"), "word");
    }
  });
}

TEST_P(AnyStore, AFreshKeyHoldsTheValueOfRankZero) {
  MakeJob().Run([](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 3 + kv.rank()));
    NDArray out = Filled(kv, kShape, 0);
    kv.Pull(kKey, &out);
    EXPECT_EQ(out.ToVector(), Repeat(3, kShape));
  });
}

TEST_P(AnyStore, KeysAreNamesOrNumbers) {
  MakeJob().Run([](KVStore& kv) {
    kv.Init({int64_t{3}, int64_t{-7}}, {Filled(kv, {2}, 1), Filled(kv, {4}, 2)});
    const NDArray three = Filled(kv, {2}, 0), minus_seven = Filled(kv, {4}, 0);
    kv.Pull({int64_t{-7}, int64_t{3}}, {{minus_seven}, {three}});
    EXPECT_EQ(three.ToVector(), Repeat(1, {2}));
    EXPECT_EQ(minus_seven.ToVector(), Repeat(2, {4}));
  });
}

TEST_P(AnyStore, EveryWorkersPushCounts) {
  MakeJob().Run([&](KVStore& kv) {
    InitAccumulating(kv);
    kv.Push(kKey, Filled(kv, kShape, 1 + kv.rank()));
    const int n = kv.num_workers();
    EXPECT_EQ(Settled(kv), Repeat(static_cast<float>(n * (n + 1) / 2), kShape));
  });
}

TEST_P(AnyStore, OnesOnFourContextsAddUpToFour) {
  MakeJob().Run([&](KVStore& kv) {
    InitAccumulating(kv);
    std::vector<NDArray> ones;
    for (int i = 0; i < 4; ++i) ones.push_back(Filled(kv, kShape, 1, i));
    kv.Push(kKey, ones);
    EXPECT_EQ(Settled(kv), Repeat(4.0f * static_cast<float>(kv.num_workers()), kShape));
  });
}

TEST_P(AnyStore, AKeyOfManyPartsIsThereAtOnce) {
  MakeJob().Run([](KVStore& kv) {
    const Shape shape = {3'000'000};  // a dozen parts, several on each server
    kv.Init(kKey, Filled(kv, shape, 2));
    NDArray out = Filled(kv, shape, 0);
    kv.Pull(kKey, &out);
    EXPECT_EQ(out.SliceRows(shape[0] - 1, shape[0]).ToScalar(), 2);
  });
}

TEST_P(AnyStore, AKeyNamedTwiceInACallIsSummed) {
  MakeJob().Run([&](KVStore& kv) {
    InitAccumulating(kv);
    kv.Push({kKey, kKey}, {{Filled(kv, kShape, 1)}, {Filled(kv, kShape, 4)}});
    EXPECT_EQ(Settled(kv), Repeat(5.0f * static_cast<float>(kv.num_workers()), kShape));
  });
}

TEST_P(AnyStore, APullFillsEveryOutputOnEveryContext) {
  MakeJob().Run([](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 6));
    const NDArray a = Filled(kv, kShape, 0), b = Filled(kv, kShape, 0, 1), c = Filled(kv, kShape, 0, 2);
    kv.Pull(kKey, KVStore::Values{a, b, c});
    for (const NDArray& out : {a, b, c}) EXPECT_EQ(out.ToVector(), Repeat(6, kShape));
  });
}

TEST_P(AnyStore, ABroadcastMakesAndFetches) {
  MakeJob().Run([](KVStore& kv) {
    const NDArray a = Filled(kv, kShape, 0), b = Filled(kv, kShape, 0, 1);
    kv.Broadcast({kKey}, {Filled(kv, kShape, 7 - kv.rank())}, {{a, b}});
    EXPECT_EQ(a.ToVector(), Repeat(7, kShape));
    EXPECT_EQ(b.ToVector(), Repeat(7, kShape));
  });
}

TEST_P(AnyStore, ABroadcastIntoWhatDoesNotFitMakesNoKey) {
  MakeJob().Run([](KVStore& kv) {
    const NDArray fits = Filled(kv, kShape, 0), other = Filled(kv, {3}, 0);
    ErrorOf(ErrorCode::kInvalidArgument, [&] {
      kv.Broadcast({"a", "b"}, {fits, fits}, std::vector<KVStore::Values>{{fits}, {other}});
    });
    kv.Barrier();
    ErrorOf(ErrorCode::kFailedPrecondition, [&] { kv.Pull("a", KVStore::Values{fits}); });
    kv.Barrier();
    kv.Broadcast({"a", "b"}, {Filled(kv, kShape, 3), other}, std::vector<KVStore::Values>{{fits}, {other}});
    EXPECT_EQ(fits.ToVector(), Repeat(3, kShape));
  });
}

TEST_P(AnyStore, APullAfterAPushSeesIt) {
  MakeJob().Run([&](KVStore& kv) {
    InitAccumulating(kv);
    for (int round = 1; round <= 20; ++round) {
      NDArray out = Filled(kv, kShape, 0);
      kv.Push(kKey, Filled(kv, kShape, 1));
      kv.Pull(kKey, &out);
      const auto values = out.ToVector();
      const auto all = static_cast<float>(round * kv.num_workers());
      if (IsAsync()) {  // at least its own pushes are in, and those of the others that have arrived
        EXPECT_GE(values.front(), static_cast<float>(round));
        EXPECT_LE(values.front(), 20.0f * static_cast<float>(kv.num_workers()));
      } else {
        ASSERT_EQ(values, Repeat(all, kShape));
      }
    }
  });
}

TEST_P(AnyStore, PushPullInPlaceReturnsTheRound) {
  MakeJob().Run([&](KVStore& kv) {
    InitAccumulating(kv);
    NDArray both = Filled(kv, kShape, 2);
    kv.PushPull(kKey, both);
    if (!IsAsync()) {
      EXPECT_EQ(both.ToVector(), Repeat(2.0f * static_cast<float>(kv.num_workers()), kShape));
    }
    EXPECT_EQ(Settled(kv), Repeat(2.0f * static_cast<float>(kv.num_workers()), kShape));
  });
}

TEST_P(AnyStore, EveryFloatingTypeIsSummedAndStored) {
  MakeJob().Run([&](KVStore& kv) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16})
      kv.Init(std::string(Name(dtype)), Filled(kv, kShape, 1, 0, dtype));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
      const Key key = std::string(Name(dtype));
      kv.Push(key, KVStore::Values{Filled(kv, kShape, 0.5, 0, dtype), Filled(kv, kShape, 2, 1, dtype)});
      kv.WaitAll();
      kv.Barrier();
      NDArray out = NDArray::Empty(kShape, DeviceOf(kv), dtype);
      kv.PullLatest({key}, {{out}});
      const NDArray wide = out.AsType(DType::kFloat32);
      EXPECT_EQ(wide.ToVector(), Repeat(1 + 2.5f * static_cast<float>(kv.num_workers()), kShape))
          << Name(dtype);
    }
  });
}

TEST_P(AnyStore, AnOptimizerUpdatesTheStoresWeight) {
  MakeJob().Run([&](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 1));
    kv.SetOptimizer({.kind = OptimizerKind::kSgd, .learning_rate = 0.5});
    kv.Barrier();
    kv.Push(kKey, Filled(kv, kShape, 2), {.divisor = 4});
    EXPECT_EQ(Settled(kv), Repeat(1 - 0.25f * static_cast<float>(kv.num_workers()), kShape));
  });
}

TEST_P(AnyStore, StatesSurviveSavingAndLoading) {
  const std::string path =
      (std::filesystem::temp_directory_path() / StrCat("states-", getpid(), ".safetensors")).string();
  std::vector<float> undisturbed, resumed;
  for (const bool reload : {false, true}) {
    MakeJob().Run([&](KVStore& kv) {
      const OptimizerConfig config = {.kind = OptimizerKind::kSgd, .learning_rate = 0.25, .momentum = 0.5};
      kv.Init(kKey, Filled(kv, kShape, 1));
      kv.SetOptimizer(config);
      kv.Barrier();
      for (int round = 0; round < 4; ++round) {
        if (kv.rank() == 0) kv.Push(kKey, Filled(kv, kShape, 1));
        if (kv.rank() != 0 && !IsAsync()) kv.Push(kKey, Filled(kv, kShape, 0));
        kv.WaitAll();
        kv.Barrier();
        if (round != 1 || !reload) continue;
        kv.SaveOptimizerStates(path);
        kv.Barrier();
        if (kv.rank() == 0) kv.Push(kKey, Filled(kv, kShape, 0));  // disturbs momentum and weight
        if (kv.rank() != 0 && !IsAsync()) kv.Push(kKey, Filled(kv, kShape, 0));
        kv.WaitAll();
        kv.Barrier();
        kv.LoadOptimizerStates(path);
        kv.Barrier();
      }
      const auto values = Settled(kv);
      if (kv.rank() == 0) (reload ? resumed : undisturbed) = values;
    });
  }
  std::filesystem::remove(path);
  // The velocity is -.25, -.375, -.4375, -.46875. The disturbing push moved the weight by another
  // half of -.375.
  EXPECT_EQ(undisturbed, Repeat(1 - 1.53125f, kShape));
  EXPECT_EQ(resumed, Repeat(1 - 1.53125f - 0.1875f, kShape));
}

TEST_P(AnyStore, APushDoesNotWaitForItsGradient) {
  MakeJob().Run([&](KVStore& kv) {
    InitAccumulating(kv);
    NDArray gradient = Filled(kv, kShape, 0);
    const Event gate = Event::Make("the gate");
    SetWriter(gradient, EnqueueOn(DeviceOf(kv), "a slow gradient", std::array{gate}, [] {}));
    gradient.Fill(5);
    kv.Push(kKey, gradient);  // must not wait for the gradient, whose event completes only below
    gate.Complete();
    EXPECT_EQ(Settled(kv), Repeat(5.0f * static_cast<float>(kv.num_workers()), kShape));
  });
}

TEST_P(AnyStore, AGradientThatFailedIsReportedByTheNextWait) {
  Job job = MakeJob();
  job.Run([&](KVStore& kv) {
    InitAccumulating(kv);
    NDArray gradient = Filled(kv, kShape, 0);
    SetWriter(gradient, EnqueueOn(DeviceOf(kv), "a gradient", {},
                                  [] { throw Error(ErrorCode::kInvalidArgument, "label 11 is no class"); }));
    kv.Push(kKey, gradient);
    try {
      kv.WaitAll();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("push of key weight"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("label 11 is no class"), std::string::npos) << e.what();
    }
    kv.Barrier();
  });
}

// A call that throws does not count as a barrier, so the last ones meet the other worker's.
TEST_P(AnyStore, BarriersThrowTheFailureOfAnEarlierPush) {
  MakeJob().Run([&](KVStore& kv) {
    InitAccumulating(kv);
    const auto push_failing = [&] {
      NDArray gradient = Filled(kv, kShape, 0);
      SetWriter(gradient, EnqueueOn(DeviceOf(kv), "a gradient", {}, [] {
                  throw Error(ErrorCode::kInvalidArgument, "label 11 is no class");
                }));
      kv.Push(kKey, gradient);
      WaitAll();  // the devices have done their work, so the store knows of the failure
    };
    const std::vector<std::function<void()>> barriers = {
        [&] { kv.Barrier(); }, [&] { kv.Barrier({kv.rank()}, 20s); }, [&] { kv.Agree("word"); }};
    for (const auto& barrier : barriers) {
      push_failing();
      ExpectError(ErrorCode::kInvalidArgument, {"push of key weight", "label 11 is no class"}, barrier);
    }
    for (const auto& barrier : barriers) barrier();
  });
}

TEST_P(AnyStore, BadCallsAreRefusedAndLoseNothing) {
  MakeJob().Run([&](KVStore& kv) {
    InitAccumulating(kv);
    NDArray out = Filled(kv, kShape, 0), other = Filled(kv, {3, 2}, 0);
    ExpectError(ErrorCode::kFailedPrecondition, {"Push", "nobody"},
                [&] { kv.Push(std::string("nobody"), out); });
    ExpectError(ErrorCode::kFailedPrecondition, {"Pull", "nobody"},
                [&] { kv.Pull(std::string("nobody"), &out); });
    ExpectError(ErrorCode::kInvalidArgument, {"weight", "[3, 2]", "[2, 3]"}, [&] { kv.Push(kKey, other); });
    ExpectError(ErrorCode::kInvalidArgument, {"weight", "[3, 2]", "[2, 3]"}, [&] { kv.Pull(kKey, &other); });
    ExpectError(ErrorCode::kInvalidArgument, {"weight", "float64", "float32"},
                [&] { kv.Push(kKey, Filled(kv, kShape, 1, 0, DType::kFloat64)); });
    ExpectError(ErrorCode::kInvalidArgument, {"2 keys", "arrays for 1;"}, [&] {
      kv.Push({kKey, kKey}, {{out}});
    });
    ExpectError(ErrorCode::kInvalidArgument, {"weight", "without an array"},
                [&] { kv.Push(kKey, KVStore::Values{}); });
    ExpectError(ErrorCode::kInvalidArgument, {"learning_rate"},
                [&] { kv.SetOptimizer({.kind = OptimizerKind::kSgd, .learning_rate = -1}); });
    // If one of two keys is unknown, neither is pushed.
    ExpectError(ErrorCode::kFailedPrecondition, {"nobody"}, [&] {
      kv.Push({kKey, std::string("nobody")}, {{Filled(kv, kShape, 100)}, {Filled(kv, kShape, 100)}});
    });
    kv.Push(kKey, Filled(kv, kShape, 1));
    EXPECT_EQ(Settled(kv), Repeat(static_cast<float>(kv.num_workers()), kShape));
  });
}

TEST_P(AnyStore, AnUpdaterOfOnesOwnWorksInOneProcess) {
  MakeJob().Run([&](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 10));
    const auto updater = [](const Key& key, const NDArray& gradient, NDArray& weight) {
      EXPECT_EQ(key, kKey);
      (weight - gradient * 2.0f).CopyTo(&weight);
    };
    if (IsDist()) {
      ExpectError(ErrorCode::kFailedPrecondition, {"server program"}, [&] { kv.SetUpdater(updater); });
      return;
    }
    kv.SetUpdater(updater);
    kv.Push(kKey, KVStore::Values{Filled(kv, kShape, 1), Filled(kv, kShape, 2, 1)});
    NDArray out = Filled(kv, kShape, 0);
    kv.Pull(kKey, &out);
    EXPECT_EQ(out.ToVector(), Repeat(4, kShape));
  });
}

TEST_P(AnyStore, BadNamesAndDivisorsAreRefusedBeforeAnythingTravels) {
  MakeJob().Run([&](KVStore& kv) {
    for (int i = 0; i < 50; ++i)  // more invalid messages than a server accepts from one peer
      ErrorOf(ErrorCode::kInvalidArgument, [&] { kv.Init(std::string(70'000, 'k'), Filled(kv, kShape, 0)); });
    ErrorOf(ErrorCode::kInvalidArgument, [&] { kv.Init("\xE4\xFF", Filled(kv, kShape, 0)); });
    // If one of two keys is invalid, neither is initialised.
    ErrorOf(ErrorCode::kInvalidArgument, [&] {
      kv.Init({kKey, std::string("\xFF")}, {Filled(kv, kShape, 0), Filled(kv, kShape, 0)});
    });
    InitAccumulating(kv);
    for (const double divisor : {0.0, -2.0, HUGE_VAL}) {
      ExpectError(ErrorCode::kInvalidArgument, {"Push of key weight", "divisor"},
                  [&] { kv.Push(kKey, Filled(kv, kShape, 1), {.divisor = divisor}); });
      ExpectError(ErrorCode::kInvalidArgument, {"PushPull of key weight", "divisor"},
                  [&] { kv.PushPull(kKey, Filled(kv, kShape, 1), nullptr, {.divisor = divisor}); });
    }
    kv.Push(kKey, Filled(kv, kShape, 1));
    EXPECT_EQ(Settled(kv), Repeat(static_cast<float>(kv.num_workers()), kShape));
  });
}

TEST_P(AnyStore, AllHearTheWordOfRankZero) {
  MakeJob().Run([&](KVStore& kv) {
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(kv.Agree(StrCat("worker ", kv.rank(), " says ", i)), StrCat("worker 0 says ", i));
    EXPECT_EQ(kv.Agree(""), "");
    const std::string most(64 << 10, 'w');
    EXPECT_EQ(kv.Agree(most), most);
    ErrorOf(ErrorCode::kInvalidArgument, [&] { kv.Agree(most + "!"); });
    kv.Barrier();
  });
}

TEST_P(AnyStore, WaitsOfAnyLengthAreAccepted) {
  MakeJob().Run([&](KVStore& kv) {
    InitAccumulating(kv);
    kv.Push(kKey, Filled(kv, kShape, 1));
    kv.WaitAll(std::chrono::milliseconds::max());
    kv.Barrier(BarrierGroup::kWorkers, std::chrono::milliseconds::max());
  });
}

TEST_P(AnyStore, ManyKeysKeepTheirOrderWhateverTheirPriorities) {
  MakeJob().Run([&](KVStore& kv) {
    constexpr int kKeys = 40, kRounds = 5;
    std::vector<Key> keys;
    std::vector<NDArray> zeros;
    for (int k = 0; k < kKeys; ++k) {
      keys.push_back(StrCat("key ", k));
      zeros.push_back(Filled(kv, {1 + k}, 0));
    }
    kv.Init(keys, zeros);
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    for (int round = 0; round < kRounds; ++round) {
      for (int k = 0; k < kKeys; ++k) {
        kv.Push(keys[static_cast<size_t>(k)], Filled(kv, {1 + k}, k + 1),
                {.priority = (k * 7 + round) % 11 - 5});
      }
    }
    for (int k = 0; k < kKeys; k += 13) {
      EXPECT_EQ(Settled(kv, keys[static_cast<size_t>(k)], {1 + k}),
                Repeat(static_cast<float>(kRounds * (k + 1) * kv.num_workers()), {1 + k}));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Stores, AnyStore, ::testing::ValuesIn(StoreTypes()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sluice::testing

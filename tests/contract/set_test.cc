// KVStore::Set, which sets weights in no round, on every type of store. Rank 0's values are used.
#include <gmock/gmock.h>

#include "contract/every_store.h"
#include "golden/optimizer/formulas.h"

namespace sluice::testing {
namespace {

using ::testing::Each;

const Key kLarge = std::string("large");

class SetOn : public OfEveryStore {
 protected:
  static void InitBoth(KVStore& kv, double value) {
    kv.Init({kKey, kLarge}, {Filled(kv, kShape, value), Filled(kv, kLong, value)});
  }
  static void PushOnes(KVStore& kv) {
    kv.Push({kKey, kLarge}, {{Filled(kv, kShape, 1)}, {Filled(kv, kLong, 1)}});
  }
  static void SetBoth(KVStore& kv, double value) {
    kv.Set({kKey, kLarge}, {Filled(kv, kShape, value), Filled(kv, kLong, value)});
  }
};
INSTANTIATE_TEST_SUITE_P(Stores, SetOn, ::testing::ValuesIn(StoreTypes()),
                         [](const auto& info) { return info.param; });

// Computes SGD with momentum 0.5, rate 1 and gradients of 1.
struct Reference {
  void Round(int workers, bool async) {
    for (int push = 0; push < (async ? workers : 1); ++push) {
      velocity = 0.5 * velocity - (async ? 1 : workers);
      weight += velocity;
    }
  }
  double weight = 0, velocity = 0;
};

TEST_P(SetOn, TheNextRoundGoesOnFromRankZerosValueWithTheStatesAsTheyAre) {
  MakeJob().Run([&](KVStore& kv) {
    InitBoth(kv, 0);
    kv.SetOptimizer({.learning_rate = 1, .momentum = 0.5});
    kv.Barrier();
    Reference expected;
    for (int time = 1; time <= 3; ++time) {
      PushOnes(kv);
      expected.Round(Workers(), IsAsync());
      EXPECT_THAT(Settled(kv, kLarge, kLong), Each(expected.weight));
      SetBoth(kv, 10 * time + kv.rank());
      expected.weight = 10 * time;
      NDArray pulled = Filled(kv, kLong, 0);
      kv.Pull(kLarge, &pulled);
      if (!IsAsync()) {
        EXPECT_THAT(pulled.ToVector(), Each(expected.weight));
      }
      PushOnes(kv);
      expected.Round(Workers(), IsAsync());
      EXPECT_THAT(Settled(kv, kKey, kShape), Each(expected.weight));
      EXPECT_THAT(Settled(kv, kLarge, kLong), Each(expected.weight));
      EXPECT_EQ(kv.NumUpdates(kLarge), static_cast<uint64_t>(2 * time * (IsAsync() ? Workers() : 1)));
      kv.Barrier();
    }
  });
}

TEST_P(SetOn, RankZeroAloneMaySetIt) {
  MakeJob().Run([&](KVStore& kv) {
    InitBoth(kv, 1);
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    if (kv.rank() == 0) SetBoth(kv, 7);
    EXPECT_THAT(Settled(kv, kLarge, kLong), Each(7));
    PushOnes(kv);
    EXPECT_THAT(Settled(kv, kLarge, kLong), Each(7 + Workers()));
    EXPECT_THAT(Settled(kv, kKey, kShape), Each(7 + Workers()));
  });
}

// The caller may write to the arrays as soon as Set has returned.
TEST_P(SetOn, WhatTheArrayHeldThenCounts) {
  MakeJob().Run([&](KVStore& kv) {
    InitBoth(kv, 1);
    NDArray value = Filled(kv, kLong, 5);
    kv.Set(kLarge, value);
    value.Fill(6);
    EXPECT_THAT(Settled(kv, kLarge, kLong), Each(5));
  });
}

TEST_P(SetOn, AMasterFollows) {
  MakeJob().Run([&](KVStore& kv) {
    kv.Init(kKey, Filled(kv, kShape, 1, 0, DType::kFloat16));
    kv.SetOptimizer({.learning_rate = 1, .multi_precision = true});
    kv.Barrier();
    const auto push = [&](double value) {
      kv.Push(kKey, Filled(kv, kShape, value / Workers(), 0, DType::kFloat16));
      kv.WaitAll();
      kv.Barrier();
    };
    push(1);
    kv.Set(kKey, Filled(kv, kShape, 4, 0, DType::kFloat16));
    push(3);
    NDArray out = Filled(kv, kShape, 0, 0, DType::kFloat16);
    kv.PullLatest({kKey}, {{out}});
    EXPECT_THAT(out.AsType(DType::kFloat32).ToVector(), Each(::testing::FloatNear(1, 2e-3f)));
  });
}

// The states alone say what the next weight of ftrl is.
TEST_P(SetOn, FtrlGoesOnFromIt) {
  MakeJob().Run([&](KVStore& kv) {
    const OptimizerConfig ftrl{
        .kind = OptimizerKind::kFtrl, .learning_rate = 0.5, .wd = 0.125, .lambda1 = 0.25};
    InitBoth(kv, 3);
    kv.SetOptimizer(ftrl);
    kv.Barrier();
    reference::Element expected{.weight = 3};
    const auto near = [](double weight) { return ::testing::FloatNear(static_cast<float>(weight), 1e-5f); };
    for (const double value : {7.0, -2.0, 0.0, 1.0}) {
      for (int pushes = 0; pushes < 2; ++pushes) {
        PushOnes(kv);
        for (int push = 0; push < (IsAsync() ? Workers() : 1); ++push)
          reference::UpdateElement(ftrl, {.rate = 0.5}, IsAsync() ? 1 : Workers(), &expected);
        EXPECT_THAT(Settled(kv, kKey, kShape), Each(near(expected.weight))) << value;
        EXPECT_THAT(Settled(kv, kLarge, kLong), Each(near(expected.weight))) << value;
      }
      SetBoth(kv, value);
      expected.weight = value;
    }
  });
}

TEST_P(SetOn, WhatDoesNotFitIsRefused) {
  MakeJob().Run([&](KVStore& kv) {
    InitBoth(kv, 1);
    kv.InitRowSparse(Key("table"), {10, 2});
    ExpectError(ErrorCode::kFailedPrecondition, {"Set of key no", "has not been initialised"},
                [&] { kv.Set(Key("no"), Filled(kv, kShape, 1)); });
    ExpectError(ErrorCode::kInvalidArgument, {"Set of key weight", "[3, 2]", "[2, 3]"}, [&] {
      kv.Set(kKey, Filled(kv, {3, 2}, 1));
    });
    ExpectError(ErrorCode::kInvalidArgument, {"Set of key weight", "no array"},
                [&] { kv.Set(kKey, NDArray()); });
    ExpectError(ErrorCode::kInvalidArgument, {"Set: key weight comes twice"}, [&] {
      kv.Set({kKey, kKey}, {Filled(kv, kShape, 1), Filled(kv, kShape, 1)});
    });
    ExpectError(ErrorCode::kInvalidArgument, {"Set of key table", "row-sparse"}, [&] {
      kv.Set(Key("table"), Filled(kv, {10, 2}, 1));
    });
    EXPECT_THAT(Settled(kv, kKey, kShape), Each(1));
  });
}

TEST_P(SetOn, AnotherRanksAloneIsAnErrorThatSaysWhatToDo) {
  if (!IsDist()) return;
  MakeJob(std::chrono::minutes(1)).Run([&](KVStore& kv) {
    InitBoth(kv, 1);
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    if (kv.rank() == 1) {
      if (IsAsync()) kv.SetTimeout(std::chrono::seconds(3));
      kv.Set(kLarge, Filled(kv, kLong, 7));
      kv.SetTimeout(std::chrono::minutes(1));
      PushOnes(kv);  // must come before rank 0's push: after it, this push would throw
    }
    kv.Barrier();
    if (kv.rank() != 1) PushOnes(kv);
    if (kv.rank() != 1) {
      kv.WaitAll();
    } else if (IsAsync()) {
      ExpectError(ErrorCode::kDeadlineExceeded,
                  {"set of key large", "waiting for worker 0 to set it as well"}, [&] { kv.WaitAll(); });
    } else {
      ExpectError(ErrorCode::kFailedPrecondition,
                  {"set of key large", "worker 1 has set the weight", "set it on worker 0 or on all workers"},
                  [&] { kv.WaitAll(); });
    }
    EXPECT_THAT(Settled(kv, kLarge, kLong), Each(1 + Workers())) << "the others go on";
  });
}

}  // namespace
}  // namespace sluice::testing

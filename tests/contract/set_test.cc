// Weights that are set outside of rounds, on every type of store: by KVStore::Set, and by a Trainer that
// finds that the program has written its parameters. Rank 0's values are used. Also learning rates that
// change between steps. Distributed stores have three workers.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "base/strings.h"
#include "contract/weight_key.h"
#include "golden/optimizer/formulas.h"
#include "sluice/nn.h"
#include "sluice/parameters_file.h"
#include "sluice/store_type.h"
#include "sluice/trainer.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

const std::vector<std::string> kTypes = StoreTypes();
const Key kLarge = std::string("large");  // split into parts on every server
const Shape kLong = {300};

class OfEveryStore : public ::testing::TestWithParam<std::string> {
 protected:
  bool IsDist() const { return StoreType::Parse(GetParam()).distributed; }
  bool IsAsync() const { return StoreType::Parse(GetParam()).async; }
  int Workers() const { return IsDist() ? 3 : 1; }
  Job MakeJob(std::chrono::milliseconds timeout = std::chrono::minutes(10)) const {
    return Job(
        {.type = GetParam(), .workers = Workers(), .bigarray_bound = 100, .operation_timeout = timeout});
  }
  // Returns the key's value after all workers' pushes. No worker may set it meanwhile.
  static std::vector<float> Settled(KVStore& kv, const Key& key, const Shape& shape) {
    kv.WaitAll();
    kv.Barrier();
    NDArray out = Filled(kv, shape, 0);
    kv.PullLatest({key}, {{out}});
    std::vector<float> values = out.ToVector();
    kv.Barrier();
    return values;
  }
};

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
INSTANTIATE_TEST_SUITE_P(Stores, SetOn, ::testing::ValuesIn(kTypes),
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

class WrittenWeightsOn : public OfEveryStore {
 protected:
  static constexpr double kRate = 0.5;
  void TearDown() override { std::filesystem::remove(path_); }

  // A worker with a Trainer and one parameter, which is on two devices and split into parts on every server.
  struct Worker {
    Worker(const std::shared_ptr<KVStore>& kv, const TrainerOptions& options = {}, double momentum = 0)
        : store(kv), parameter(std::make_shared<nn::Parameter>("p", kLong)) {
      parameter->Initialize({DeviceOf(*kv, 0), DeviceOf(*kv, 1)}, std::make_shared<nn::Constant>(1));
      parameters.Add(parameter);
      trainer.emplace(parameters, OptimizerConfig{.learning_rate = kRate, .momentum = momentum}, kv, options);
    }
    NDArray Value(double value) const { return Filled(*store, kLong, value); }
    // Takes a step with gradients of 1 on every device.
    void Step(bool overlap = false) {
      if (overlap) trainer->PushDuringBackward(1);
      std::vector<NDArray> losses;
      {
        const autograd::RecordScope record;
        for (const NDArray& weight : parameter->list_data()) losses.push_back(weight * 1.0f);
      }
      autograd::Backward(losses);
      trainer->Step(1);
    }
    // Returns the weights of all devices, once all workers have stepped.
    std::vector<float> Weights() {
      store->WaitAll();
      store->Barrier();
      if (StoreType::Parse(store->type()).async) store->PullLatest({Key("p")}, {parameter->list_data()});
      std::vector<float> all;
      for (const NDArray& weight : parameter->list_data()) {
        const std::vector<float> here = weight.ToVector();
        all.insert(all.end(), here.begin(), here.end());
      }
      store->Barrier();
      return all;
    }
    const std::shared_ptr<KVStore> store;
    std::shared_ptr<nn::Parameter> parameter;
    nn::ParameterDict parameters;
    std::optional<Trainer> trainer;
  };
  // Returns by how much one step of all workers reduces the weights.
  double OfStep() const { return kRate * 2 * Workers(); }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / StrCat("written-", getpid(), ".safetensors")).string();
};
INSTANTIATE_TEST_SUITE_P(Stores, WrittenWeightsOn, ::testing::ValuesIn(kTypes),
                         [](const auto& info) { return info.param; });

TEST_P(WrittenWeightsOn, WhatWasSetBeforeTheFirstStepCounts) {
  SaveParameters(path_, [] {
    nn::ParameterDict parameters;
    parameters.Add(std::make_shared<nn::Parameter>("p", kLong));
    parameters.Initialize({cpu(0)}, std::make_shared<nn::Constant>(7));
    return parameters;
  }());
  MakeJob().RunShared([&](const std::shared_ptr<KVStore>& kv) {
    Worker worker(kv);
    LoadParameters(path_, worker.parameters);
    worker.Step();
    EXPECT_THAT(worker.Weights(), Each(7 - OfStep()));
  });
}

TEST_P(WrittenWeightsOn, WhatRankZeroSetBetweenStepsCountsHoweverItWasWritten) {
  for (const bool overlap : {false, true}) {
    MakeJob().RunShared([&](const std::shared_ptr<KVStore>& kv) {
      Worker worker(kv);
      const std::function<void()> writes[] = {
          [&] { worker.parameter->SetData(worker.Value(20 + kv->rank())); },
          [&] {
            for (NDArray& weight : worker.parameter->list_data()) weight.Fill(20 + kv->rank());
          },
          [&] {  // in place, as when weights are clipped
            for (NDArray& weight : worker.parameter->list_data())
              weight *= 0.0f, weight += Filled(*kv, kLong, 20, weight.context().id % 10);
          },
          [&] {  // with new arrays
            worker.parameter->Reinitialize(worker.parameter->list_ctx(), std::make_shared<nn::Constant>(20));
          }};
      for (const auto& write : writes) {
        worker.Step(overlap);
        worker.Weights();
        write();
        worker.Step(overlap);
        EXPECT_THAT(worker.Weights(), Each(20 - OfStep()));
        worker.Step(overlap);
        EXPECT_THAT(worker.Weights(), Each(20 - 2 * OfStep()));
      }
    });
  }
}

// PullLatest into the parameters is not a write by the program: the next step must not set the pulled values.
TEST_P(WrittenWeightsOn, APullFromTheSameStoreSetsNothing) {
  MakeJob().RunShared([&](const std::shared_ptr<KVStore>& kv) {
    Worker worker(kv);
    const auto pull = [&] { kv->PullLatest({Key("p")}, {worker.parameter->list_data()}); };
    worker.Step();
    double expected = 1 - OfStep();
    EXPECT_THAT(worker.Weights(), Each(expected));
    pull();
    kv->WaitAll();
    kv->Barrier();
    if (IsAsync()) {  // the other workers step once more, so worker 0's arrays are older than the store's
      if (kv->rank() != 0) worker.Step();
      expected -= OfStep() * (Workers() - 1) / Workers();
      kv->WaitAll();
      kv->Barrier();
    }
    worker.Step();
    EXPECT_THAT(worker.Weights(), Each(expected -= OfStep()));
    if (kv->rank() == Workers() - 1) pull();
    worker.Step();
    EXPECT_THAT(worker.Weights(), Each(expected -= OfStep()));
    // A write after the pull does count.
    pull();
    worker.parameter->SetData(worker.Value(9));
    worker.Step();
    EXPECT_THAT(worker.Weights(), Each(9 - OfStep()));
  });
}

TEST_P(WrittenWeightsOn, RankZeroAloneMayWriteThemAndMomentumStays) {
  if (IsAsync()) return;  // the momentum would depend on the order of pushes
  MakeJob().RunShared([&](const std::shared_ptr<KVStore>& kv) {
    Worker worker(kv, {}, 0.5);
    worker.Step();
    worker.Weights();
    if (kv->rank() == 0) worker.parameter->SetData(worker.Value(9));
    worker.Step();
    EXPECT_THAT(worker.Weights(), Each(9 - OfStep() - 0.5 * OfStep()));
  });
}

TEST_P(WrittenWeightsOn, TheFirstOfTheDevicesThatWasWrittenCounts) {
  MakeJob().RunShared([&](const std::shared_ptr<KVStore>& kv) {
    Worker worker(kv);
    worker.parameter->data(DeviceOf(*kv, 1)).Fill(9);
    worker.Step();
    EXPECT_THAT(worker.Weights(), Each(9 - OfStep()));
  });
}

TEST_P(WrittenWeightsOn, AFrozenOneGoesOnFromWhatWasWrittenMeanwhile) {
  MakeJob().RunShared([&](const std::shared_ptr<KVStore>& kv) {
    Worker worker(kv);
    worker.parameter->SetGradReq(autograd::GradReq::kNull);
    worker.parameter->SetData(worker.Value(9));
    worker.trainer->Step(1, /*ignore_stale=*/true);
    EXPECT_THAT(worker.parameter->list_data().front().ToVector(), Each(9));
    worker.parameter->SetGradReq(autograd::GradReq::kWrite);
    worker.Step();
    EXPECT_THAT(worker.Weights(), Each(9 - OfStep()));
  });
}

TEST_P(WrittenWeightsOn, AnotherRanksAloneIsAnErrorThatSaysWhatToDo) {
  if (!IsDist()) return;
  MakeJob(std::chrono::minutes(1)).RunShared([&](const std::shared_ptr<KVStore>& kv) {
    Worker worker(kv);
    if (kv->rank() == 2) {
      worker.parameter->SetData(worker.Value(9));
      if (IsAsync()) kv->SetTimeout(std::chrono::seconds(3));
      worker.Step();  // must come before rank 0's step: after it, this step would throw
      kv->SetTimeout(std::chrono::minutes(1));
    }
    kv->Barrier();
    if (kv->rank() != 2) worker.Step();
    if (kv->rank() == 2) {
      ExpectError(IsAsync() ? ErrorCode::kDeadlineExceeded : ErrorCode::kFailedPrecondition,
                  {"set of key p", "worker 0"}, [&] { kv->WaitAll(); });
      if (IsAsync()) {
        try {
          kv->WaitAll();  // the pull of this step may time out, too; its push goes on in any case
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
        }
      }
    }
    EXPECT_THAT(worker.Weights(), Each(1 - OfStep()));
  });
}

TEST_P(WrittenWeightsOn, WorkersThatUpdateByThemselvesGoOnFromTheirOwn) {
  if (IsAsync()) return;
  MakeJob().RunShared([&](const std::shared_ptr<KVStore>& kv) {
    Worker worker(kv, {.update_on_kvstore = false});
    worker.parameter->SetData(worker.Value(9));
    worker.Step();
    EXPECT_THAT(worker.Weights(), Each(9 - OfStep()));
  });
}

class LearningRateOn : public OfEveryStore {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  const std::string path_ =
      (std::filesystem::temp_directory_path() / StrCat("rates-", getpid(), ".safetensors")).string();
};
INSTANTIATE_TEST_SUITE_P(Stores, LearningRateOn, ::testing::ValuesIn(kTypes),
                         [](const auto& info) { return info.param; });

// The pushes of several workers of an async store are late, and momentum on top of that diverges.
TEST_P(LearningRateOn, MomentumThatIsNotSetIsNoneWherePushesAreLate) {
  for (const bool by_trainer : {true, false}) {
    MakeJob().RunShared([&](const std::shared_ptr<KVStore>& kv) {
      nn::ParameterDict parameters;
      parameters.Add(std::make_shared<nn::Parameter>("p", kLong));
      parameters.Initialize({DeviceOf(*kv)}, std::make_shared<nn::Constant>(0));
      const OptimizerConfig nag{.kind = OptimizerKind::kNag};
      if (by_trainer) {
        Trainer(parameters, nag, kv);
      } else {
        kv->Init(Key("p"), Filled(*kv, kLong, 0));
        kv->SetOptimizer(nag);
        kv->Barrier();
      }
      for (int step = 0; step < 2; ++step)
        kv->Push(Key("p"), Filled(*kv, kLong, 1), {.divisor = static_cast<double>(Workers())});
      // By hand, with a rate of 0.1: twice -0.1; or by Nesterov's formula with 0.9, -0.19 and then -0.271.
      EXPECT_THAT(Settled(*kv, Key("p"), kLong),
                  Each(::testing::FloatNear(IsAsync() ? -0.2f : -0.461f, 1e-6f)));
    });
  }
}

// The learning rate halves after every second step.
TEST_P(LearningRateOn, ItIsTheRateThatTheNextStepUsesAfterLoadedStatesToo) {
  for (const bool update_on_kvstore : {true, false}) {
    if (IsAsync() && !update_on_kvstore) continue;
    MakeJob().RunShared([&](const std::shared_ptr<KVStore>& kv) {
      nn::ParameterDict parameters;
      parameters.Add(std::make_shared<nn::Parameter>("p", kLong));
      parameters.Initialize({DeviceOf(*kv)}, std::make_shared<nn::Constant>(0));
      NDArray& weight = parameters.at(0)->data(DeviceOf(*kv));
      OptimizerConfig sgd{.learning_rate = 8};
      sgd.schedule = {.kind = LrScheduleKind::kFactor, .factor = 0.5, .step = 2};
      Trainer trainer(parameters, sgd, kv, {.update_on_kvstore = update_on_kvstore});
      double rate = 8;
      const auto steps = [&](int first, int last) {
        for (int step = first; step <= last; ++step) {
          EXPECT_DOUBLE_EQ(trainer.learning_rate(), rate) << step;
          const float before = weight.ToVector().front();
          NDArray loss;
          {
            const autograd::RecordScope record;
            loss = weight * 1.0f;
          }
          autograd::Backward(loss);
          trainer.Step(Workers());
          if (!IsAsync()) {
            EXPECT_FLOAT_EQ(before - weight.ToVector().front(), static_cast<float>(rate)) << step;
          }
          kv->WaitAll();
          kv->Barrier();
          if (step % 2 == 0) rate /= 2;
        }
      };
      steps(1, 4);
      if (kv->rank() == 0) trainer.SaveStates(path_);
      steps(5, 5);
      trainer.LoadStates(path_);
      rate = 2;
      steps(5, 6);
      trainer.SetLearningRate(16);
      EXPECT_EQ(trainer.base_learning_rate(), 16);
      rate = 2;
      steps(7, 8);
    });
  }
}

}  // namespace
}  // namespace sluice::testing

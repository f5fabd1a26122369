// Weights that the program writes between a Trainer's steps, on every type of store. Rank 0's are used.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "base/strings.h"
#include "contract/every_store.h"
#include "sluice/nn.h"
#include "sluice/parameters_file.h"
#include "sluice/trainer.h"

namespace sluice::testing {
namespace {

using ::testing::Each;

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
INSTANTIATE_TEST_SUITE_P(Stores, WrittenWeightsOn, ::testing::ValuesIn(StoreTypes()),
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

}  // namespace
}  // namespace sluice::testing

// The learning rate and the momentum that a Trainer's steps use, on every type of store: what is chosen where
// they are not set, and rates that change between steps.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "base/strings.h"
#include "contract/every_store.h"
#include "sluice/nn.h"
#include "sluice/trainer.h"

namespace sluice::testing {
namespace {

using ::testing::Each;

class LearningRateOn : public OfEveryStore {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  const std::string path_ =
      (std::filesystem::temp_directory_path() / StrCat("rates-", getpid(), ".safetensors")).string();
};
INSTANTIATE_TEST_SUITE_P(Stores, LearningRateOn, ::testing::ValuesIn(StoreTypes()),
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

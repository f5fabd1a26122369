// Trainers on every type of store, when the workers update (OwnUpdate) and when the store does (StoreUpdate).
// Rank 0's weights, states and learning rate must be used on all workers. Distributed stores mostly have
// three workers here.
#include "sluice/trainer.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <mutex>

#include "base/strings.h"
#include "contract/job.h"
#include "sluice/error.h"
#include "sluice/store_type.h"
#include "unit/expect_error.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr double kNorm = 0.5;
constexpr int kHalf = 3;  // number of steps before the states are saved, and of those after
const Shape kShapes[] = {{300}, {3, 7}};

class OwnUpdateOn : public ::testing::TestWithParam<std::string> {
 protected:
  using Weights = std::vector<std::vector<float>>;  // by parameter

  void TearDown() override { std::filesystem::remove(path_); }
  Job MakeJob() const { return Job({.type = GetParam(), .workers = Workers(), .bigarray_bound = 100}); }
  int Workers() const { return StoreType::Parse(GetParam()).distributed ? 3 : 1; }
  // Returns a path that exists on rank 0 only, because only rank 0 may read the states.
  std::string PathOf(const KVStore& store) const { return store.rank() == 0 ? path_ : "nowhere/at/all"; }

  static nn::ParameterDict Parameters(Context context) {
    nn::ParameterDict parameters;
    for (size_t i = 0; i < std::size(kShapes); ++i) {
      parameters.Add(std::make_shared<nn::Parameter>(StrCat("p", i), kShapes[i]));
      parameters.at(i)->Initialize({context}, std::make_shared<nn::Constant>(1));
    }
    return parameters;
  }
  static std::unique_ptr<Trainer> MakeTrainer(
      const nn::ParameterDict& parameters, const std::shared_ptr<KVStore>& store,
      const OptimizerConfig& optimizer = {.kind = OptimizerKind::kAdam, .learning_rate = 0.1, .wd = 0.01}) {
    return std::make_unique<Trainer>(parameters, optimizer, store,
                                     TrainerOptions{.update_on_kvstore = false, .clip_global_norm = kNorm});
  }
  static void Steps(const nn::ParameterDict& parameters, Trainer& trainer, int first, int last) {
    const int rank = trainer.store().rank();
    for (int step = first + 1; step <= last; ++step) {
      std::vector<NDArray> losses;
      {
        const autograd::RecordScope record;
        for (const auto& parameter : parameters) {
          const NDArray weight = parameter->data(parameter->list_ctx().front());
          losses.push_back(weight * weight * (0.1f * static_cast<float>(step + rank)));
        }
      }
      autograd::Backward(losses);
      trainer.Step(2);
    }
  }
  static Weights Of(const nn::ParameterDict& parameters) {
    Weights weights;
    for (const auto& parameter : parameters) weights.push_back(parameter->list_data().front().ToVector());
    return weights;
  }
  static void Set(const nn::ParameterDict& parameters, const Weights& weights) {
    for (size_t i = 0; i < weights.size(); ++i)
      parameters.at(i)->SetData(NDArray::From(std::span(weights[i]), kShapes[i]));
  }
  // Runs `body` on every worker. Returns the results of all workers, in any order.
  std::vector<Weights> Run(const std::function<Weights(const std::shared_ptr<KVStore>&)>& body) const {
    std::vector<Weights> ends;
    std::mutex mutex;
    MakeJob().RunShared([&](const std::shared_ptr<KVStore>& store) {
      Weights end = body(store);
      const std::lock_guard lock(mutex);
      ends.push_back(std::move(end));
    });
    return ends;
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / StrCat("own-states-", getpid(), ".safetensors")).string();
};

INSTANTIATE_TEST_SUITE_P(Stores, OwnUpdateOn, ::testing::ValuesIn(SyncStoreTypes()),
                         [](const auto& info) { return info.param; });

TEST_P(OwnUpdateOn, TrainingOnFromRankZerosStatesIsTrainingOn) {
  Weights half;
  const auto whole = Run([&](const std::shared_ptr<KVStore>& store) {
    const auto parameters = Parameters(DeviceOf(*store));
    const auto trainer = MakeTrainer(parameters, store);
    Steps(parameters, *trainer, 0, kHalf);
    if (store->rank() == 0) {
      half = Of(parameters);
      trainer->SaveStates(path_);
    }
    Steps(parameters, *trainer, kHalf, 2 * kHalf);
    return Of(parameters);
  });
  ASSERT_EQ(whole.size(), static_cast<size_t>(Workers()));
  EXPECT_THAT(whole, Each(whole.front()));  // all workers have the same weights
  EXPECT_NE(whole.front(), half);

  const auto resumed = Run([&](const std::shared_ptr<KVStore>& store) {
    const auto parameters = Parameters(DeviceOf(*store));
    Set(parameters, half);
    const auto trainer = MakeTrainer(parameters, store);
    trainer->LoadStates(PathOf(*store));
    Steps(parameters, *trainer, kHalf, 2 * kHalf);
    Weights once = Of(parameters);
    Set(parameters, half);  // continues once more, on the same store
    trainer->LoadStates(PathOf(*store));
    Steps(parameters, *trainer, kHalf, 2 * kHalf);
    EXPECT_EQ(Of(parameters), once);
    return once;
  });
  EXPECT_THAT(resumed, Each(whole.front()));
}

// With SGD a step is proportional to the clipped gradient. All weights are equal.
TEST_P(OwnUpdateOn, TheNormOfAllWorkersGradientsTogetherIsClipped) {
  constexpr double kRate = 0.1, kBatch = 2;
  double elements = 0, weight = 1;
  for (const Shape& shape : kShapes) elements += static_cast<double>(shape.size());
  for (int step = 1; step <= kHalf; ++step) {
    double gradient = 0;
    for (int rank = 0; rank < Workers(); ++rank) gradient += 2 * weight * 0.1 * (step + rank) / kBatch;
    const double norm = std::sqrt(elements) * gradient;
    ASSERT_GT(norm, kNorm);
    weight -= kRate * gradient * kNorm / norm;
  }
  const auto ends = Run([&](const std::shared_ptr<KVStore>& store) {
    const auto parameters = Parameters(DeviceOf(*store));
    const auto trainer =
        MakeTrainer(parameters, store, {.kind = OptimizerKind::kSgd, .learning_rate = kRate});
    Steps(parameters, *trainer, 0, kHalf);
    return Of(parameters);
  });
  for (const Weights& end : ends) {
    for (const auto& values : end)
      EXPECT_THAT(values, Each(::testing::FloatNear(static_cast<float>(weight), 1e-6f)));
  }
}

TEST_P(OwnUpdateOn, AFileThatRankZeroCannotReadIsEverybodysError) {
  std::mutex mutex;
  std::vector<std::string> errors;
  Run([&](const std::shared_ptr<KVStore>& store) {
    const auto parameters = Parameters(DeviceOf(*store));
    const auto trainer = MakeTrainer(parameters, store);
    try {
      trainer->LoadStates(PathOf(*store));
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      errors.push_back(error.what());
    }
    Steps(parameters, *trainer, 0, 1);  // the job continues after the error
    return Of(parameters);
  });
  EXPECT_EQ(errors.size(), static_cast<size_t>(Workers()));
  EXPECT_THAT(errors, Each(HasSubstr(path_)));
}

// The store still holds the gradients of the first Trainer. Stores of one process refuse keys with
// equal names.
TEST_P(OwnUpdateOn, ASecondTrainerOnAStoreBeginsWithRankZerosWeights) {
  if (Workers() == 1) {
    Run([&](const std::shared_ptr<KVStore>& store) {
      const auto parameters = Parameters(DeviceOf(*store));
      MakeTrainer(parameters, store);
      EXPECT_THAT(ErrorOf(ErrorCode::kAlreadyExists, [&] { MakeTrainer(parameters, store); }),
                  HasSubstr("p0"));
      return Weights();
    });
    return;
  }
  const auto ends = Run([&](const std::shared_ptr<KVStore>& store) {
    const auto parameters = Parameters(DeviceOf(*store));
    {
      const auto first = MakeTrainer(parameters, store);
      Steps(parameters, *first, 0, 2);
    }
    for (const auto& parameter : parameters) {
      NDArray value(parameter->shape());
      value.Fill(5 + store->rank());
      parameter->SetData(value);
    }
    const auto second = MakeTrainer(parameters, store);
    return Of(parameters);
  });
  for (const Weights& weights : ends) EXPECT_THAT(weights, Each(Each(5)));
}

TEST_P(OwnUpdateOn, AStoreThatUpdatesByItselfIsRefused) {
  Run([&](const std::shared_ptr<KVStore>& store) {
    store->Init(Key("other"), NDArray({1}, DeviceOf(*store)));
    store->SetOptimizer({.learning_rate = 0.1});
    store->Barrier();
    const auto parameters = Parameters(DeviceOf(*store));
    EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { MakeTrainer(parameters, store); }),
                HasSubstr("store updates by itself"));
    return Weights();
  });
}

// Callbacks of Fit run on rank 0 only, so a learning rate that rank 0 sets must hold for all workers.
TEST_P(OwnUpdateOn, RankZerosLearningRateIsEverybodys) {
  const auto train = [&](bool everybody) {
    return Run([&, everybody](const std::shared_ptr<KVStore>& store) {
      const auto parameters = Parameters(DeviceOf(*store));
      const auto trainer = MakeTrainer(parameters, store);
      Steps(parameters, *trainer, 0, 2);
      if (everybody || store->rank() == 0) trainer->SetLearningRate(0.01);
      Steps(parameters, *trainer, 2, 4);
      return Of(parameters);
    });
  };
  const auto told = train(true);
  EXPECT_THAT(train(false), Each(told.front()));
}

// If the worker updates, each device has its own copy of the weights, and no store makes them equal again. So
// the Trainer copies the first device's weights that the program has written to the others.
TEST(OwnUpdate, TheFirstOfTheDevicesThatWasWrittenCounts) {
  for (const char* type : {"device", "dist_sync"}) {
    Job({.type = type, .workers = std::string(type) == "device" ? 1 : 2})
        .RunShared([type](const std::shared_ptr<KVStore>& kv) {
          nn::ParameterDict parameters;
          const auto parameter = std::make_shared<nn::Parameter>("p", Shape{3});
          parameters.Add(parameter);
          parameter->Initialize({DeviceOf(*kv), DeviceOf(*kv, 1)}, std::make_shared<nn::Constant>(1));
          Trainer trainer(parameters, {.learning_rate = 0.5}, kv, {.update_on_kvstore = false});
          for (const float written : {7.f, 9.f}) {
            parameter->data(DeviceOf(*kv, written == 7.f ? 0 : 1)).Fill(written);
            std::vector<NDArray> losses;
            {
              const autograd::RecordScope record;
              for (const NDArray& weight : parameter->list_data()) losses.push_back(weight * 1.0f);
            }
            autograd::Backward(losses);
            trainer.Step(2 * kv->num_workers());
            for (const NDArray& weight : parameter->list_data())
              EXPECT_THAT(weight.ToVector(), Each(written - 0.5f)) << type;
          }
        });
  }
}

// A second Trainer with the same keys is accepted only if its network has the trained values: another network
// with equal names would continue from the first one's weights.
TEST(StoreUpdate, ASecondTrainerGoesOnFromTheTrainedValuesAlone) {
  for (const char* type : {"dist_sync", "dist_async"}) {
    Job({.type = type, .workers = 2}).RunShared([](const std::shared_ptr<KVStore>& store) {
      const Context here = DeviceOf(*store);
      nn::ParameterDict parameters;
      parameters.Add(std::make_shared<nn::Parameter>("w", Shape{2}));
      parameters.at(0)->Initialize({here}, std::make_shared<nn::Constant>(1));
      const auto step = [&](Trainer& trainer) {
        NDArray loss;
        {
          const autograd::RecordScope record;
          loss = parameters.at(0)->data(here) * 1.0f;
        }
        autograd::Backward(loss);
        trainer.Step(2);
        store->WaitAll();
        store->Barrier();
      };
      const OptimizerConfig config{.learning_rate = 0.1};
      {
        Trainer first(parameters, config, store);
        step(first);
      }
      NDArray trained = parameters.at(0)->data(here);
      store->PullLatest({Key("w")}, {{trained}});
      Trainer second(parameters, config, store);
      store->Barrier();
      parameters.at(0)->SetData(NDArray({2}));
      EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { Trainer(parameters, config, store); }),
                  AllOf(HasSubstr("the servers have other values of w"), HasSubstr("a store of its own")));
    });
  }
}

// A frozen key of 8 MB is not pushed. If it counted for the balance of the servers, a key of 400 KB would be
// too small a share to be split.
TEST(StoreUpdate, WhatIsTrainedIsBalancedWhateverIsFrozen) {
  Job job({.type = "dist_sync", .workers = 1, .servers = 2});
  job.RunShared([&job](const std::shared_ptr<KVStore>& store) {
    const Context here = DeviceOf(*store);
    nn::ParameterDict parameters;
    parameters.Add(std::make_shared<nn::Parameter>(
        "frozen", Shape{2'000'000}, nn::ParameterOptions{.grad_req = autograd::GradReq::kNull}));
    parameters.Add(std::make_shared<nn::Parameter>("trained", Shape{100'000}));
    for (const auto& parameter : parameters) parameter->Initialize({here}, std::make_shared<nn::Constant>(1));
    Trainer trainer(parameters, {.learning_rate = 0.1}, store);
    NDArray loss;
    {
      const autograd::RecordScope record;
      loss = parameters.at(1)->data(here) * 1.0f;
    }
    autograd::Backward(loss);
    const auto pushed = [&](const char* server) { return job.Stats().at(server)["bytes_in"]; };
    const uint64_t before[] = {pushed("server 0"), pushed("server 1")};
    trainer.Step(1);
    store->WaitAll();
    for (const uint64_t bytes : {pushed("server 0") - before[0], pushed("server 1") - before[1]})
      EXPECT_NEAR(static_cast<double>(bytes), 200'000, 4096);
  });
}

}  // namespace
}  // namespace sluice::testing

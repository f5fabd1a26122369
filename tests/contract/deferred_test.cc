// Trainers that are created before the first forward has determined the shapes of the parameters, on every
// type of store. Their results must equal those of Trainers that are created afterwards, whether the store or
// the workers update.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "base/strings.h"
#include "contract/job.h"
#include "sluice/error.h"
#include "sluice/nn.h"
#include "sluice/parameters_file.h"
#include "sluice/store_type.h"
#include "sluice/trainer.h"
#include "unit/expect_error.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kRows = 4, kColumns = 6;

struct Case {
  std::string store;
  bool update_on_kvstore;

  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << (c.update_on_kvstore ? "" : "own_update_") << c.store;
  }
};

// A network with weights, and with statistics that are not trained.
nn::Sequential Net() {
  nn::Sequential net;
  net.Add("hidden", nn::Dense(8)).Add("norm", nn::BatchNorm()).Add("out", nn::Dense(3));
  return net;
}

NDArray Input(const KVStore& store, int step) {
  std::vector<float> values(kRows * kColumns);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 7 + static_cast<size_t>(step + 3 * store.rank())) % 11) / 11 - 0.4f;
  return NDArray::From(values, {kRows, kColumns}, DeviceOf(store));
}

class DeferredOn : public ::testing::TestWithParam<Case> {
 protected:
  using Weights = std::vector<std::vector<float>>;  // by parameter

  static bool IsDist() { return StoreType::Parse(GetParam().store).distributed; }
  static int Workers() { return IsDist() ? 2 : 1; }

  static std::unique_ptr<Trainer> MakeTrainer(const nn::ParameterDict& parameters,
                                              const std::shared_ptr<KVStore>& store,
                                              double learning_rate = 0.1) {
    return std::make_unique<Trainer>(
        parameters,
        OptimizerConfig{.kind = OptimizerKind::kSgd, .learning_rate = learning_rate, .momentum = 0.9}, store,
        TrainerOptions{.update_on_kvstore = GetParam().update_on_kvstore});
  }
  static Weights Of(const nn::ParameterDict& parameters) {
    Weights weights;
    for (const auto& parameter : parameters) {
      for (const NDArray& copy : parameter->list_data()) weights.push_back(copy.ToVector());
    }
    return weights;
  }
  static void StepOn(int devices, nn::Sequential& net, Trainer& trainer, int step) {
    std::vector<NDArray> losses;
    {
      const autograd::RecordScope record;
      for (int i = 0; i < devices; ++i) {
        const NDArray y = net(Input(trainer.store(), step).AsInContext(DeviceOf(trainer.store(), i)));
        losses.push_back(y * y);
      }
    }
    autograd::Backward(losses);
    trainer.Step(devices * kRows * Workers());
  }
  static void Run(const std::function<void(const std::shared_ptr<KVStore>&)>& body) {
    Job({.type = GetParam().store, .workers = Workers(), .bigarray_bound = 10}).RunShared(body);
  }
  // Returns by rank the weights after three steps. In async stores the workers step one after the other, so
  // that the result is determined.
  static std::vector<Weights> Train(bool deferred) {
    std::vector<Weights> ends(static_cast<size_t>(Workers()));
    Run([&](const std::shared_ptr<KVStore>& store) {
      nn::Sequential net = Net();
      const nn::ParameterDict parameters = net.CollectParams();
      const auto rank = static_cast<size_t>(store->rank());
      parameters.Initialize({DeviceOf(*store), DeviceOf(*store, 1)}, nullptr, 5 + rank);
      std::unique_ptr<Trainer> trainer;
      if (deferred) trainer = MakeTrainer(parameters, store);
      net(Input(*store, 9));
      if (!deferred) trainer = MakeTrainer(parameters, store);
      store->Barrier();  // async: no worker pushes before all have rank 0's values
      for (int step = 0; step < 3; ++step) {
        for (int turn = 0; turn < Workers(); ++turn) {
          const bool takes_turns = GetParam().store == "dist_async";
          if (takes_turns ? turn == store->rank() : turn == 0) StepOn(2, net, *trainer, step);
          store->WaitAll();
          store->Barrier();
        }
      }
      ends[rank] = Of(parameters);
    });
    return ends;
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, DeferredOn,
                         ::testing::Values(Case{"local", true}, Case{"local", false}, Case{"device", true},
                                           Case{"device", false}, Case{"dist_sync", true},
                                           Case{"dist_sync", false}, Case{"dist_device_sync", true},
                                           Case{"dist_device_sync", false}, Case{"dist_async", true}),
                         [](const auto& info) { return StrCat(info.param); });

TEST_P(DeferredOn, ATrainerMadeBeforeTheFirstForwardTrainsAsOneMadeAfterIt) {
  EXPECT_EQ(Train(/*deferred=*/true), Train(/*deferred=*/false));
}

// Each worker draws different initial values; the first forward must already use rank 0's.
TEST_P(DeferredOn, TheFirstForwardUsesRankZerosWeights) {
  std::vector<std::vector<float>> outputs(static_cast<size_t>(Workers()));
  std::vector<Weights> weights(outputs.size());
  Run([&](const std::shared_ptr<KVStore>& store) {
    nn::Sequential net = Net();
    const nn::ParameterDict parameters = net.CollectParams();
    const auto rank = static_cast<size_t>(store->rank());
    parameters.Initialize({DeviceOf(*store)}, nullptr, 5 + rank);
    const auto trainer = MakeTrainer(parameters, store);
    NDArray x({kRows, kColumns}, DeviceOf(*store));
    x.Fill(0.5);
    outputs[rank] = net(x).ToVector();
    weights[rank] = Of(parameters);
  });
  nn::Sequential alone = Net();
  alone.CollectParams().Initialize({cpu(0)}, nullptr, 5);
  NDArray x({kRows, kColumns});
  x.Fill(0.5);
  const std::vector<float> expected = alone(x).ToVector();
  EXPECT_THAT(outputs, Each(::testing::Pointwise(::testing::FloatNear(1e-5f), expected)));
  EXPECT_THAT(weights, Each(Of(alone.CollectParams())));
}

TEST_P(DeferredOn, BeforeTheFirstForwardAStepSaysWhatToDo) {
  Run([&](const std::shared_ptr<KVStore>& store) {
    nn::Sequential net = Net();
    const nn::ParameterDict parameters = net.CollectParams();
    parameters.Initialize({DeviceOf(*store)});
    const auto trainer = MakeTrainer(parameters, store);
    const auto says =
        AllOf(HasSubstr("parameter hidden.weight has shape [8, 0]"), HasSubstr("first forward"));
    EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { trainer->Step(1); }), says);
    EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { trainer->SaveStates("states"); }), says);
    EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { trainer->LoadStates("states"); }), says);
    if (GetParam().update_on_kvstore)
      trainer->PushDuringBackward(1);
    else
      EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { trainer->Update(1); }), says);
    trainer->Step(1, /*ignore_stale=*/true);  // no parameter with a known shape has a gradient yet
    StepOn(1, net, *trainer, 0);
  });
}

TEST_P(DeferredOn, WhatIsLoadedBeforeTheFirstForwardIsTrainedOn) {
  const std::string path = ::testing::TempDir() + "deferred-" + std::to_string(getpid()) + ".safetensors";
  nn::Sequential saved = Net();
  saved.CollectParams().Initialize({cpu(0)}, nullptr, 3);
  saved(NDArray({kRows, kColumns}));
  SaveParameters(path, saved.CollectParams());
  const auto train = [&](bool deferred) {
    std::vector<Weights> ends(static_cast<size_t>(Workers()));
    Run([&](const std::shared_ptr<KVStore>& store) {
      nn::Sequential net = Net();
      const nn::ParameterDict parameters = net.CollectParams();
      parameters.Initialize({DeviceOf(*store)});
      std::unique_ptr<Trainer> trainer;
      if (deferred) trainer = MakeTrainer(parameters, store);
      LoadParameters(path, parameters);
      EXPECT_EQ(Of(parameters), Of(saved.CollectParams()));
      store->Barrier();  // async: no worker pushes before all have loaded
      if (!deferred) trainer = MakeTrainer(parameters, store);
      StepOn(1, net, *trainer, 0);
      store->WaitAll();
      ends[static_cast<size_t>(store->rank())] = Of(parameters);
    });
    return ends;
  };
  if (GetParam().store == "dist_async") {
    train(true);  // the order of the two workers' updates is not determined, so nothing is compared
  } else {
    EXPECT_EQ(train(true), train(false));
  }
  std::filesystem::remove(path);
}

// The program does `if (rank == 0) LoadParameters(...)` before a barrier. So worker 0 initialises the keys in
// the order of the ParameterDict, long before the other workers do in their first forward. Some keys are
// frozen weights and statistics.
TEST_P(DeferredOn, WorkerZeroAloneMayLoadBeforeABarrier) {
  const std::string path = ::testing::TempDir() + "rank-zero-" + std::to_string(getpid()) + ".safetensors";
  nn::Sequential saved = Net();
  const nn::ParameterDict to_save = saved.CollectParams();
  to_save.Initialize({cpu(0)}, nullptr, 3);
  saved(NDArray({kRows, kColumns}));
  to_save["norm.running_mean"].SetData(NDArray::From(std::vector<float>(8, 0.25f), {8}));
  SaveParameters(path, to_save);
  std::vector<Weights> firsts(static_cast<size_t>(Workers())), ends(firsts.size());
  Run([&](const std::shared_ptr<KVStore>& store) {
    const auto rank = static_cast<size_t>(store->rank());
    nn::Sequential net = Net();
    const nn::ParameterDict parameters = net.CollectParams();
    nn::ParameterDict reversed;
    for (size_t i = parameters.size(); i-- > 0;) reversed.Add(parameters.at(i));
    parameters.Initialize({DeviceOf(*store)}, nullptr, 5 + rank);
    parameters["hidden.weight"].SetGradReq(autograd::GradReq::kNull);
    const auto trainer = MakeTrainer(parameters, store);
    if (store->rank() == 0) LoadParameters(path, reversed);
    store->Barrier();
    net(Input(*store, 0));
    firsts[rank] = Of(parameters);
    store->Barrier();
    StepOn(1, net, *trainer, 1);
    store->WaitAll();
    store->Barrier();
    ends[rank] = Of(parameters);
  });
  EXPECT_THAT(firsts, Each(Of(to_save)));
  for (const Weights& end : ends) {
    EXPECT_EQ(end[0], firsts[0][0]);
    EXPECT_NE(end.back(), firsts[0].back());
  }
  std::filesystem::remove(path);
}

// A second Trainer has the same keys. Its network gets shapes and values from a file that the first one's
// network was saved to.
TEST_P(DeferredOn, ASecondTrainerGoesOnFromWhatTheFirstHasTrained) {
  if (!IsDist() || !GetParam().update_on_kvstore || GetParam().store == "dist_async") return;
  const std::string path = ::testing::TempDir() + "second-" + std::to_string(getpid()) + ".safetensors";
  Run([&](const std::shared_ptr<KVStore>& store) {
    nn::Sequential first = Net(), second = Net();
    first.CollectParams().Initialize({DeviceOf(*store)});
    second.CollectParams().Initialize({DeviceOf(*store)}, nullptr, 9);
    // The statistics are left out: the first network's forward changes them on each worker separately.
    nn::ParameterDict trained, loaded;
    for (const char* name : {"hidden.weight", "out.weight"}) {
      trained.Add(first.CollectParams().Find(name));
      loaded.Add(second.CollectParams().Find(name));
    }
    OptimizerConfig config{.kind = OptimizerKind::kSgd, .learning_rate = 0.1};
    config.schedule = {.kind = LrScheduleKind::kFactor, .factor = 0.5, .step = 1};
    double rate = 0;
    {
      Trainer trainer(trained, config, store);
      StepOn(1, first, trainer, 0);
      store->WaitAll();
      store->Barrier();
      rate = trainer.learning_rate();
      EXPECT_LT(rate, 0.1);
    }
    if (store->rank() == 0) SaveParameters(path, trained);
    store->Barrier();
    Trainer trainer(loaded, config, store);
    if (store->rank() == 0) LoadParameters(path, loaded);
    second(Input(*store, 0));
    EXPECT_EQ(Of(loaded), Of(trained));
    EXPECT_EQ(trainer.learning_rate(), rate);
    store->Barrier();
  });
  std::filesystem::remove(path);
}

// A Trainer that still waits for shapes may be destroyed.
TEST_P(DeferredOn, ATrainerMayEndBeforeTheFirstForward) {
  Run([&](const std::shared_ptr<KVStore>& store) {
    nn::Sequential net = Net();
    net.CollectParams().Initialize({DeviceOf(*store)}, nullptr, 1);
    MakeTrainer(net.CollectParams(), store).reset();
    EXPECT_EQ(net(Input(*store, 0)).shape(), Shape({kRows, 3}));
  });
}

}  // namespace
}  // namespace sluice::testing

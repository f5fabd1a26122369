// Several stores in one process or job: each has its own keys and optimiser, even if keys have the same
// names. The tests run with two stores of each type, and with a sync and an async store in one job.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "base/strings.h"
#include "contract/weight_key.h"
#include "sluice/store_type.h"
#include "sluice/trainer.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::Eq;

class TwoStores : public ::testing::TestWithParam<std::string> {
 protected:
  bool IsDist() const { return StoreType::Parse(GetParam()).distributed; }
  int Workers() const { return IsDist() ? 2 : 1; }
  // Runs `body` on every worker with the worker's two stores; `second` is the type of the second one, empty
  // for the same type.
  void Run(const std::function<void(const std::shared_ptr<KVStore>&, const std::shared_ptr<KVStore>&)>& body,
           const std::string& second = {}) const {
    Job job({.type = GetParam(), .workers = Workers(), .bigarray_bound = 100});
    job.RunShared(
        [&](const std::shared_ptr<KVStore>& store) { body(store, job.MakeStore(store->rank(), second)); });
  }
  // Returns the key's value after all workers' pushes.
  static std::vector<float> Settled(KVStore& kv, const Key& key, const Shape& shape) {
    kv.WaitAll();
    kv.Barrier();
    NDArray out = Filled(kv, shape, 0);
    kv.PullLatest({key}, {{out}});
    return out.ToVector();
  }
};

INSTANTIATE_TEST_SUITE_P(Types, TwoStores, ::testing::ValuesIn(StoreTypes()),
                         [](const auto& info) { return info.param; });

TEST_P(TwoStores, OneNameIsAKeyInEach) {
  Run([&](const auto& first, const auto& second) {
    first->Init(kKey, Filled(*first, {300}, 1));
    second->Init(kKey, Filled(*second, {2, 3}, 5));
    for (KVStore* kv : {first.get(), second.get()}) kv->SetOptimizer({.kind = OptimizerKind::kAccumulate});
    second->Barrier();
    second->Push(kKey, Filled(*second, {2, 3}, 1));
    EXPECT_THAT(Settled(*first, kKey, {300}), Each(1));
    EXPECT_THAT(Settled(*second, kKey, {2, 3}), Each(5 + Workers()));
  });
}

TEST_P(TwoStores, OneCountsItsKeysTheOtherNamesThem) {
  Run([&](const auto& first, const auto& second) {
    first->Init(Key(int64_t{7}), Filled(*first, kShape, 1));
    second->Init(kKey, Filled(*second, kShape, 2));
    EXPECT_THAT(Settled(*first, Key(int64_t{7}), kShape), Each(1));
    EXPECT_THAT(Settled(*second, kKey, kShape), Each(2));
  });
}

TEST_P(TwoStores, EachUpdatesByItsOwnOptimiserAndLearningRate) {
  Run([&](const auto& first, const auto& second) {
    for (KVStore* kv : {first.get(), second.get()}) kv->Init(kKey, Filled(*kv, kShape, 0));
    OptimizerConfig sgd{.kind = OptimizerKind::kSgd, .learning_rate = 1};
    first->SetOptimizer(sgd);
    second->SetOptimizer({.kind = OptimizerKind::kAccumulate});
    second->Barrier();
    const auto push = [&] {
      for (KVStore* kv : {first.get(), second.get()}) kv->Push(kKey, Filled(*kv, kShape, 1));
      const float of_first = Settled(*first, kKey, kShape).front();
      return std::pair(of_first, Settled(*second, kKey, kShape).front());
    };
    const auto n = static_cast<float>(Workers());
    EXPECT_EQ(push(), std::pair(-n, n));
    sgd.learning_rate = 10;  // set last, but only on the first store
    first->SetOptimizer(sgd);
    first->Barrier();
    EXPECT_EQ(push(), std::pair(-11 * n, 2 * n));
  });
}

TEST_P(TwoStores, EachSavesTheStatesOfItsKeys) {
  const std::string path = std::filesystem::temp_directory_path() / StrCat("sluice-stores-", getpid());
  Run([&](const auto& first, const auto& second) {
    first->Init(Key("a"), Filled(*first, kShape, 0));
    second->Init(Key("b"), Filled(*second, kShape, 0));
    first->SetOptimizer({.kind = OptimizerKind::kAdam});
    second->SetOptimizer({.kind = OptimizerKind::kSgd, .learning_rate = 1, .momentum = 0.5});
    second->Barrier();
    second->Push(Key("b"), Filled(*second, kShape, 1));
    second->WaitAll();
    second->Barrier();
    second->SaveOptimizerStates(path);
    second->Barrier();
    const float moved = Settled(*second, Key("b"), kShape).front();
    second->LoadOptimizerStates(path);
    second->Barrier();
    if (first->rank() == 0) {
      ExpectError(ErrorCode::kInvalidArgument, {path, "adam"}, [&] { first->LoadOptimizerStates(path); });
      std::filesystem::remove(path);
    }
    // The gradient is 0, so only the loaded momentum moves the weight; in an async store once per worker.
    second->Push(Key("b"), Filled(*second, kShape, 0));
    EXPECT_LT(Settled(*second, Key("b"), kShape).front(), moved);
    EXPECT_THAT(Settled(*first, Key("a"), kShape), Each(0));
  });
}

// Two networks with equal parameter names, as in adversarial training. Each must end as if it were trained
// alone.
class TwoTrainers : public TwoStores {
 protected:
  using Weights = std::map<int, std::vector<float>>;  // by rank

  struct Net {
    Net(const std::shared_ptr<KVStore>& store, const Shape& shape, const OptimizerConfig& config)
        : here(DeviceOf(*store)) {
      parameters.Add(std::make_shared<nn::Parameter>("w", shape));
      parameters.at(0)->Initialize({here}, std::make_shared<nn::Constant>(1));
      trainer = std::make_unique<Trainer>(parameters, config, store);
    }
    void Step(int step) {
      const int rank = trainer->store().rank();
      NDArray loss;
      {
        const autograd::RecordScope record;
        const NDArray weight = parameters.at(0)->data(here);
        loss = weight * weight * (0.1f * static_cast<float>(step + rank));
      }
      autograd::Backward(loss);
      trainer->Step(2);
    }
    std::vector<float> Weight() { return parameters.at(0)->data(here).ToVector(); }

    Context here;
    nn::ParameterDict parameters;
    std::unique_ptr<Trainer> trainer;
  };

  static constexpr int kSteps = 5;
  static std::unique_ptr<Net> Generator(const std::shared_ptr<KVStore>& store) {
    return std::make_unique<Net>(store, Shape{300},
                                 OptimizerConfig{.kind = OptimizerKind::kAdam, .learning_rate = 0.1});
  }
  static std::unique_ptr<Net> Discriminator(const std::shared_ptr<KVStore>& store) {
    return std::make_unique<Net>(store, Shape{3, 7}, OptimizerConfig{.learning_rate = 0.5, .momentum = 0.9});
  }
  // Trains the nets that `make` returns by turns. Returns by net and rank the final weights.
  std::vector<Weights> Train(
      const std::function<std::vector<std::unique_ptr<Net>>(const std::shared_ptr<KVStore>&,
                                                            const std::shared_ptr<KVStore>&)>& make) const {
    std::vector<Weights> ends;
    std::mutex mutex;
    Run([&](const auto& first, const auto& second) {
      const auto nets = make(first, second);
      for (int step = 1; step <= kSteps; ++step)
        for (const auto& net : nets) net->Step(step);
      const std::lock_guard lock(mutex);
      ends.resize(nets.size());
      for (size_t i = 0; i < nets.size(); ++i) ends[i][first->rank()] = nets[i]->Weight();
    });
    return ends;
  }
};

INSTANTIATE_TEST_SUITE_P(Types, TwoTrainers, ::testing::ValuesIn(SyncStoreTypes()),
                         [](const auto& info) { return info.param; });

TEST_P(TwoTrainers, EndAsEachDoesAlone) {
  using Nets = std::vector<std::unique_ptr<Net>>;
  const auto together = Train([](const auto& first, const auto& second) {
    Nets nets;
    nets.push_back(Generator(first));
    nets.push_back(Discriminator(second));
    return nets;
  });
  const auto alone = [&](const auto& net) {
    return Train([&](const auto& first, const auto&) {
             Nets nets;
             nets.push_back(net(first));
             return nets;
           })
        .front();
  };
  EXPECT_THAT(together.at(0), Eq(alone(Generator)));
  EXPECT_THAT(together.at(1), Eq(alone(Discriminator)));
}

// A job with a sync store for one network and an async store for another.
using StoresOfAJob = TwoStores;
INSTANTIATE_TEST_SUITE_P(Types, StoresOfAJob, ::testing::Values("dist_sync", "dist_device_sync"),
                         [](const auto& info) { return info.param; });

TEST_P(StoresOfAJob, MayBeOfTwoTypes) {
  Run(
      [&](const auto& sync, const auto& async) {
        EXPECT_EQ(async->type(), "dist_async");
        sync->Init(kKey, Filled(*sync, kShape, 0));
        async->Init(kKey, Filled(*async, kShape, 0));
        async->SetOptimizer({.kind = OptimizerKind::kAccumulate});
        for (KVStore* kv : {sync.get(), async.get()}) kv->Push(kKey, Filled(*kv, kShape, 1));
        EXPECT_THAT(Settled(*sync, kKey, kShape), Each(2));
        EXPECT_THAT(Settled(*async, kKey, kShape), Each(2));
      },
      "dist_async");
}

}  // namespace
}  // namespace sluice::testing

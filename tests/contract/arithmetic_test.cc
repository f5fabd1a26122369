// Repeats the arithmetic of MXNet's own tests (tests/nightly/dist_sync_kvstore.py,
// tests/python/unittest/test_gluon_trainer.py). The expected values are closed forms, and results must match
// them exactly.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "contract/job.h"
#include "sluice/autograd.h"
#include "sluice/initializer.h"
#include "sluice/trainer.h"

namespace sluice::testing {
namespace {

// Returns how many elements differ from `expected`.
int64_t Others(const NDArray& array, double expected) {
  const NDArray wide = array.dtype() == DType::kFloat32 ? array : array.AsType(DType::kFloat32);
  int64_t others = 0;
  for (const float value : wide.ToVector()) others += value != static_cast<float>(expected);
  return others;
}

nn::ParameterDict Only(std::shared_ptr<nn::Parameter> parameter) {
  nn::ParameterDict parameters;
  parameters.Add(std::move(parameter));
  return parameters;
}

struct Case {
  Shape shape;
  DType dtype;
};
const Case kCases[] = {{{2, 3}, DType::kFloat32},
                       {{1200, 1200}, DType::kFloat32},  // sliced over the servers
                       {{2, 3}, DType::kFloat16},
                       {{1200, 1200}, DType::kFloat16}};
Key KeyOf(size_t i) {
  return StrCat("case ", i);
}

void InitOnes(KVStore& kv, double rescale) {
  for (size_t i = 0; i < std::size(kCases); ++i)
    kv.Init(KeyOf(i), Filled(kv, kCases[i].shape, 1, 0, kCases[i].dtype));
  kv.SetOptimizer({.kind = OptimizerKind::kAccumulate, .rescale_grad = rescale});
  kv.Barrier();
}

// Pushes `value` of every key on `contexts` devices, pulls, and compares.
void Round(KVStore& kv, double value, int contexts, double expected) {
  for (size_t i = 0; i < std::size(kCases); ++i) {
    std::vector<NDArray> values;
    for (int c = 0; c < contexts; ++c)
      values.push_back(Filled(kv, kCases[i].shape, value, c, kCases[i].dtype));
    kv.Push(KeyOf(i), values);
  }
  for (size_t i = 0; i < std::size(kCases); ++i) {
    NDArray out = NDArray::Empty(kCases[i].shape, DeviceOf(kv), kCases[i].dtype);
    kv.Pull(KeyOf(i), &out);
    EXPECT_EQ(Others(out, expected), 0)
        << "case " << i << ", worker " << kv.rank() << ", expected " << expected;
  }
}

class OnWorkers : public ::testing::TestWithParam<int> {
 protected:
  Job MakeJob(const std::string& type) const {
    return Job({.type = type, .workers = GetParam(), .servers = 2});
  }
};

TEST_P(OnWorkers, RanksAddUpEachRound) {
  MakeJob("dist_sync").Run([](KVStore& kv) {
    InitOnes(kv, 2);
    const int n = kv.num_workers();
    for (int i = 0; i < 4; ++i) Round(kv, kv.rank() + 1, 1, (n + 1) * n * 2 / 2 * (i + 1) + 1);
  });
}

TEST_P(OnWorkers, TwoContextsEachAddUpUnderDeviceSync) {
  MakeJob("dist_device_sync").Run([](KVStore& kv) {
    InitOnes(kv, 2);
    const int n = kv.num_workers();
    for (int i = 0; i < 4; ++i) Round(kv, kv.rank() + 1, 2, (n + 1) * n * 2 * 2 / 2 * (i + 1) + 1);
  });
}

TEST_P(OnWorkers, AWorkerAheadOfTheOthersCountsOncePerRound) {
  MakeJob("dist_sync").Run([](KVStore& kv) {
    const Key key = std::string("weight");
    const Shape shape = {2, 3};
    kv.Init(key, Filled(kv, shape, 0));
    kv.SetOptimizer({.kind = OptimizerKind::kAccumulate});
    kv.Barrier();
    const int n = kv.num_workers();
    const int all = n * (n + 1) / 2;
    if (kv.rank() == 0) {
      kv.Push(key, Filled(kv, shape, 1));
      kv.Push(key, Filled(kv, shape, 1));
    }
    kv.Barrier();  // rank 0 has issued both pushes before another worker pushes
    if (kv.rank() != 0) {
      kv.Push(key, Filled(kv, shape, kv.rank() + 1));
      NDArray out = Filled(kv, shape, 0);
      kv.Pull(key, &out);
      EXPECT_EQ(Others(out, all), 0);  // rank 0's second push belongs to the next round
    }
    kv.Barrier();
    if (kv.rank() != 0) kv.Push(key, Filled(kv, shape, kv.rank() + 1));
    NDArray out = Filled(kv, shape, 0);
    kv.Pull(key, &out);
    EXPECT_EQ(Others(out, 2 * all), 0);
  });
}

TEST_P(OnWorkers, ATrainerStepSubtractsTheSumOfTheRanks) {
  MakeJob("dist_sync").RunShared([](const std::shared_ptr<KVStore>& kv) {
    auto weight = std::make_shared<nn::Parameter>("weight", Shape{10, 1});
    const Context here = DeviceOf(*kv);
    weight->Initialize({here}, std::make_shared<nn::Constant>(1));
    Trainer trainer(Only(weight), {.learning_rate = 1}, kv);
    {
      autograd::RecordScope record;
      const NDArray loss = weight->data(here) * static_cast<float>(kv->rank() + 1);
      autograd::Backward({loss});
    }
    trainer.Step(1);
    const int n = kv->num_workers();
    EXPECT_EQ(Others(weight->data(here), 1 - (1 + n) * n / 2), 0);
  });
}

TEST_P(OnWorkers, AsyncUpdatesAreNeitherLostNorRepeated) {
  MakeJob("dist_async").Run([](KVStore& kv) {
    constexpr int kPushes = 10;
    InitOnes(kv, 1);
    for (int p = 0; p < kPushes; ++p) {
      for (size_t i = 0; i < std::size(kCases); ++i)
        kv.Push(KeyOf(i), Filled(kv, kCases[i].shape, kv.rank() + 1, 0, kCases[i].dtype));
    }
    kv.WaitAll();
    kv.Barrier();
    const int n = kv.num_workers();
    for (size_t i = 0; i < std::size(kCases); ++i) {
      NDArray out = NDArray::Empty(kCases[i].shape, DeviceOf(kv), kCases[i].dtype);
      kv.PullLatest({KeyOf(i)}, {{out}});
      EXPECT_EQ(Others(out, 1 + kPushes * n * (n + 1) / 2), 0) << "case " << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Workers, OnWorkers, ::testing::Values(3, 7),
                         [](const auto& info) { return StrCat("dist_on_", info.param); });

// The same as test_trainer of MXNet: y = x + 1 on two devices, so that each gradient is 1.
class TrainerOn : public ::testing::TestWithParam<std::string> {};

TEST_P(TrainerOn, TwoDevicesMoveByTwoAndHalfTheRateByMomentum) {
  Job({.type = GetParam()}).RunShared([](const std::shared_ptr<KVStore>& kv) {
    const std::vector<Context> contexts = {DeviceOf(*kv, 0), DeviceOf(*kv, 1)};
    auto x = std::make_shared<nn::Parameter>("x", Shape{10});
    x->Initialize(contexts, std::make_shared<nn::Zero>());
    const auto backward = [&] {
      autograd::RecordScope record;
      std::vector<NDArray> heads;
      for (const Context context : contexts) heads.push_back(x->data(context) + 1.0f);
      autograd::Backward(heads);
    };
    Trainer trainer(Only(x), {.learning_rate = 1, .momentum = 0.5}, kv);
    backward();
    trainer.Step(1);
    for (const Context context : contexts) EXPECT_EQ(Others(x->data(context), -2), 0);
    x->set_lr_mult(0.5);
    backward();
    trainer.Step(1);
    for (const Context context : contexts) EXPECT_EQ(Others(x->data(context), -4), 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Stores, TrainerOn, ::testing::ValuesIn(SyncStoreTypes()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sluice::testing

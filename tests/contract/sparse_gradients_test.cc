// Trainers whose embedding has a row-sparse gradient, on every type of store, updated by the store or by the
// workers: the rows that a step names train as in float64, the others stay, and every worker gets them all.
// Distributed stores have three workers here, each with two devices.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <mutex>
#include <tuple>

#include "base/rng.h"
#include "base/strings.h"
#include "contract/job.h"
#include "sluice/fit.h"
#include "sluice/loss.h"
#include "sluice/models.h"
#include "sluice/parameters_file.h"
#include "sluice/synthetic.h"
#include "unit/expect_error.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr int64_t kRows = 40, kColumns = 3, kIds = 6;
constexpr int kDevices = 2;
constexpr double kRate = 0.25;
using Values = std::vector<float>;

// The ids of one device of a worker in a step. Some rows are no one's, some several workers'.
std::vector<int64_t> IdsOf(int step, int rank, int device) {
  Rng rng(static_cast<uint64_t>(100 * step + 10 * rank + device));
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < kIds; ++i) ids.push_back(static_cast<int64_t>(rng.Below(kRows / 2)));
  return ids;
}

float InitialOf(int64_t row, int64_t column) {
  return static_cast<float>(row - 10) / 8 + static_cast<float>(column) / 4;
}

// Trains in float64, with the loss that Step below has. `clip`: the bound of the norm; 0: none.
Values Expected(int workers, int steps, double clip = 0) {
  std::vector<double> table;
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t column = 0; column < kColumns; ++column)
      table.push_back(static_cast<double>(InitialOf(row, column)));
  const double batch = workers * kDevices * kIds;
  for (int step = 0; step < steps; ++step) {
    std::vector<double> mean(table.size());
    for (int rank = 0; rank < workers; ++rank)
      for (int device = 0; device < kDevices; ++device)
        for (const int64_t id : IdsOf(step, rank, device))
          for (int64_t column = 0; column < kColumns; ++column) {
            const auto at = static_cast<size_t>(id * kColumns + column);
            mean[at] += table[at] / batch;
          }
    double norm = 0;
    for (const double value : mean) norm += value * value;
    norm = std::sqrt(norm);
    const double factor = clip > 0 && norm > clip ? clip / norm : 1;
    for (size_t i = 0; i < table.size(); ++i) table[i] -= kRate * factor * mean[i];
  }
  return {table.begin(), table.end()};
}

struct Mode {
  std::string type;
  bool update_on_kvstore;
};

std::vector<Mode> Modes() {
  std::vector<Mode> modes;
  for (const std::string& type : SyncStoreTypes())
    for (const bool on_kvstore : {true, false}) modes.push_back({type, on_kvstore});
  return modes;
}

// What one worker trains.
struct Worker {
  Worker(std::shared_ptr<KVStore> with, const OptimizerConfig& optimizer, TrainerOptions options)
      : store(std::move(with)), embedding(kRows, kColumns, {.sparse_grad = true}) {
    embedding.CollectParams().Initialize({DeviceOf(*store, 0), DeviceOf(*store, 1)});
    Values values;  // rank 0's count
    for (int64_t i = 0; i < kRows * kColumns; ++i)
      values.push_back(store->rank() == 0 ? InitialOf(i / kColumns, i % kColumns) : 99.0f);
    Write(values);
    trainer = std::make_unique<Trainer>(embedding.CollectParams(), optimizer, store, options);
  }

  void Write(const Values& values) {
    embedding.weight().SetData(NDArray::From(std::span<const float>(values), {kRows, kColumns}));
  }
  Values Read() {
    embedding.weight().rows().FetchAll();
    const std::vector<NDArray>& arrays = embedding.weight().list_data();
    EXPECT_EQ(arrays.front().ToVector(), arrays.back().ToVector());
    return arrays.front().ToVector();
  }
  // The loss is half the sum of squares of the rows that the ids name. Without a part, a device has no ids.
  void Backward(int step, int parts = kDevices) {
    std::vector<NDArray> losses;
    {
      const autograd::RecordScope record;
      for (int device = 0; device < parts; ++device) {
        const std::vector<int64_t> ids = IdsOf(step, store->rank(), device);
        const NDArray rows =
            embedding(NDArray::From(std::span<const int64_t>(ids), {kIds}, DeviceOf(*store, device)));
        losses.push_back(rows * rows * 0.5f);
      }
    }
    autograd::Backward(losses);
  }
  void Steps(int first, int last) {
    for (int step = first; step < last; ++step) {
      Backward(step);
      trainer->Step(store->num_workers() * kDevices * kIds);
    }
  }

  const std::shared_ptr<KVStore> store;
  nn::Embedding embedding;
  std::unique_ptr<Trainer> trainer;
};

const OptimizerConfig kSgd = {.kind = OptimizerKind::kSgd, .learning_rate = kRate, .momentum = 0};

class SparseGradientsOn : public ::testing::TestWithParam<Mode> {
 protected:
  void TearDown() override {
    for (const std::string& path : {states_, parameters_}) std::filesystem::remove(path);
  }
  int Workers() const { return StoreType::Parse(GetParam().type).distributed ? 3 : 1; }
  TrainerOptions Options() const { return {.update_on_kvstore = GetParam().update_on_kvstore}; }
  // Runs `body` on every worker, and returns what it returns, in any order.
  std::vector<Values> Run(const OptimizerConfig& optimizer, const TrainerOptions& options,
                          const std::function<Values(Worker&)>& body) const {
    std::vector<Values> ends;
    std::mutex mutex;
    Job({.type = GetParam().type, .workers = Workers()})
        .RunShared([&](const std::shared_ptr<KVStore>& store) {
          Worker worker(store, optimizer, options);
          Values end = body(worker);
          const std::lock_guard lock(mutex);
          ends.push_back(std::move(end));
        });
    return ends;
  }

  const std::string folder_ = std::filesystem::temp_directory_path().string();
  const std::string states_ = StrCat(folder_, "/sparse-states-", getpid());
  const std::string parameters_ = StrCat(folder_, "/sparse-parameters-", getpid());
};

INSTANTIATE_TEST_SUITE_P(Stores, SparseGradientsOn, ::testing::ValuesIn(Modes()), [](const auto& info) {
  return info.param.type + (info.param.update_on_kvstore ? "_updates" : "_sums");
});

TEST_P(SparseGradientsOn, EveryWorkerHasTheRowsOfAll) {
  constexpr int kSteps = 4;
  const Values expected = Expected(Workers(), kSteps);
  const auto ends = Run(kSgd, Options(), [&](Worker& worker) {
    worker.Steps(0, kSteps);
    return worker.Read();
  });
  ASSERT_EQ(ends.size(), static_cast<size_t>(Workers()));
  EXPECT_THAT(ends, Each(Pointwise(FloatNear(1e-5f), expected)));
}

// What is saved has the rows of all workers, also without a call of FetchAll.
TEST_P(SparseGradientsOn, RankZeroSavesTheRowsOfAll) {
  constexpr int kSteps = 3;
  Run(kSgd, Options(), [&](Worker& worker) -> Values {
    worker.Steps(0, kSteps);
    if (worker.store->rank() == 0) SaveParameters(parameters_, worker.embedding.CollectParams());
    worker.store->Barrier();
    return {};
  });
  nn::Embedding loaded(kRows, kColumns);
  loaded.CollectParams().Initialize();
  LoadParameters(parameters_, loaded.CollectParams());
  EXPECT_THAT(loaded.weight().list_data().front().ToVector(),
              Pointwise(FloatNear(1e-5f), Expected(Workers(), kSteps)));
}

TEST_P(SparseGradientsOn, TrainingOnFromSavedStatesIsTrainingOn) {
  constexpr int kHalf = 3;
  const OptimizerConfig adam = {.kind = OptimizerKind::kAdam, .learning_rate = 0.1};
  Values half;
  const auto whole = Run(adam, Options(), [&](Worker& worker) {
    worker.Steps(0, kHalf);
    const Values here = worker.Read();
    if (worker.store->rank() == 0) {
      half = here;
      worker.trainer->SaveStates(states_);
    }
    worker.store->Barrier();
    worker.Steps(kHalf, 2 * kHalf);
    return worker.Read();
  });
  EXPECT_THAT(whole, Each(whole.front()));
  EXPECT_NE(half, whole.front());
  const auto resumed = Run(adam, Options(), [&](Worker& worker) {
    worker.Write(half);
    worker.trainer->LoadStates(states_);
    worker.Steps(kHalf, 2 * kHalf);
    return worker.Read();
  });
  EXPECT_THAT(resumed, Each(whole.front()));
}

TEST_P(SparseGradientsOn, GoesOnFromWeightsThatAllWorkersWrite) {
  Values initial;
  for (int64_t i = 0; i < kRows * kColumns; ++i) initial.push_back(InitialOf(i / kColumns, i % kColumns));
  const auto ends = Run(kSgd, Options(), [&](Worker& worker) {
    worker.Steps(7, 9);
    worker.Write(initial);
    worker.Steps(0, 2);
    return worker.Read();
  });
  EXPECT_THAT(ends, Each(Pointwise(FloatNear(1e-5f), Expected(Workers(), 2))));
}

// A worker without samples, or a device without any, pushes no rows and takes part.
TEST_P(SparseGradientsOn, AnEmptyShareChangesNoRow) {
  const auto ends = Run(kSgd, Options(), [&](Worker& worker) {
    if (worker.store->rank() == 0) worker.Backward(0, 1);
    worker.trainer->ZeroStaleGrads();
    worker.trainer->Step(kIds);
    return worker.Read();
  });
  Values expected;
  const std::vector<int64_t> ids = IdsOf(0, 0, 0);
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t column = 0; column < kColumns; ++column) {
      const auto times = static_cast<float>(std::ranges::count(ids, row));
      expected.push_back(InitialOf(row, column) *
                         (1 - static_cast<float>(kRate) * times / static_cast<float>(kIds)));
    }
  EXPECT_THAT(ends, Each(Pointwise(FloatNear(1e-5f), expected)));
}

// Pushed while Backward runs, rows give the same.
TEST_P(SparseGradientsOn, RowsArePushedDuringBackward) {
  const auto ends = Run(kSgd, Options(), [&](Worker& worker) {
    const int64_t batch = worker.store->num_workers() * kDevices * kIds;
    for (int step = 0; step < 3; ++step) {
      worker.trainer->PushDuringBackward(batch);
      worker.Backward(step);
      worker.trainer->Step(batch);
    }
    return worker.Read();
  });
  EXPECT_THAT(ends, Each(Pointwise(FloatNear(1e-5f), Expected(Workers(), 3))));
}

TEST_P(SparseGradientsOn, TheNormOfAllRowsIsClipped) {
  if (GetParam().update_on_kvstore) return;  // no server has all gradients
  constexpr double kNorm = 0.05;
  constexpr int kSteps = 3;
  const auto ends = Run(kSgd, {.update_on_kvstore = false, .clip_global_norm = kNorm}, [&](Worker& worker) {
    worker.Steps(0, kSteps);
    return worker.Read();
  });
  const Values expected = Expected(Workers(), kSteps, kNorm);
  EXPECT_NE(expected, Expected(Workers(), kSteps));
  EXPECT_THAT(ends, Each(Pointwise(FloatNear(1e-5f), expected)));
}

// Fit trains a network with a row-sparse gradient as it trains one with a dense gradient, where no row has a
// momentum or a decay that goes on by itself.
TEST_P(SparseGradientsOn, FitTrainsAsWithDenseGradients) {
  const auto train = [&](bool sparse) {
    Values found;
    std::mutex mutex;
    Job({.type = GetParam().type, .workers = Workers()})
        .RunShared([&](const std::shared_ptr<KVStore>& store) {
          nn::Sequential net = nn::TextMean(kSyntheticVocabulary, 4, 8, sparse);
          FitOptions options;
          options.contexts = {DeviceOf(*store, 0), DeviceOf(*store, 1)};
          options.batch_size = 8;
          options.num_steps = 5;
          options.disp_batches = 0;
          options.clip_global_norm = GetParam().update_on_kvstore ? 0 : 0.1;
          net.CollectParams().Initialize(options.contexts, nullptr, 3);
          Fit(net, SyntheticText(Subset::kTrain, 1, 200), nullptr, kSgd, store, options);
          const std::lock_guard lock(mutex);
          found = net.CollectParams()["embedding.weight"].list_data().back().ToVector();
        });
    return found;
  };
  EXPECT_THAT(train(true), Pointwise(FloatNear(1e-5f), train(false)));
}

// In async stores every push is applied when it arrives; a worker alone trains as in float64.
TEST(SparseGradients, TrainOnAsyncStores) {
  for (const char* type : {"dist_async", "dist_device_async"}) {
    Job({.type = type, .workers = 1}).RunShared([&](const std::shared_ptr<KVStore>& store) {
      Worker worker(store, kSgd, {});
      worker.Steps(0, 3);
      EXPECT_THAT(worker.Read(), Pointwise(FloatNear(1e-5f), Expected(1, 3)));
    });
  }
}

// Several workers of an async store, each with rows of its own.
TEST(SparseGradients, AsyncWorkersSeeTheRowsOfAll) {
  Job({.type = "dist_async", .workers = 3}).RunShared([&](const std::shared_ptr<KVStore>& store) {
    Worker worker(store, kSgd, {});
    const int64_t id = store->rank();
    {
      const autograd::RecordScope record;
      const NDArray rows = worker.embedding(NDArray::From({id}, {1}, DeviceOf(*store, 0)));
      autograd::Backward(rows * rows * 0.5f);
    }
    worker.trainer->ZeroStaleGrads();
    worker.trainer->Step(1);
    store->WaitAll();
    store->Barrier();
    const Values found = worker.Read();
    for (int64_t row = 0; row < 3; ++row)
      EXPECT_FLOAT_EQ(found[static_cast<size_t>(row * kColumns)],
                      InitialOf(row, 0) * (1 - static_cast<float>(kRate)));
    EXPECT_FLOAT_EQ(found[static_cast<size_t>(3 * kColumns)], InitialOf(3, 0));
  });
}

// Weights that rank 0 alone writes count, as those of dense parameters do.
TEST(SparseGradients, RankZeroAloneMayWrite) {
  Values initial;
  for (int64_t i = 0; i < kRows * kColumns; ++i) initial.push_back(InitialOf(i / kColumns, i % kColumns));
  Job({.type = "dist_sync", .workers = 3}).RunShared([&](const std::shared_ptr<KVStore>& store) {
    Worker worker(store, kSgd, {});
    worker.Steps(7, 9);
    if (store->rank() == 0) worker.Write(initial);
    // The gradient of this step is that of the weights before on the other workers, so it has no ids there.
    if (store->rank() == 0) worker.Backward(0, 1);
    worker.trainer->ZeroStaleGrads();
    worker.trainer->Step(kIds);
    const std::vector<int64_t> ids = IdsOf(0, 0, 0);
    const Values found = worker.Read();
    for (int64_t row = 0; row < kRows; ++row) {
      const auto times = static_cast<float>(std::ranges::count(ids, row));
      EXPECT_NEAR(found[static_cast<size_t>(row * kColumns)],
                  InitialOf(row, 0) * (1 - static_cast<float>(kRate) * times / static_cast<float>(kIds)),
                  1e-5);
    }
  });
}

// Two tables whose gradients are complete in another order than a step takes them, on workers of which one
// has an empty share: they wait for each other's sums in one order all the same.
TEST(SparseGradients, TwoTablesAreSummedInOneOrder) {
  Job({.type = "dist_sync", .workers = 3, .operation_timeout = std::chrono::seconds(20)})
      .RunShared([&](const std::shared_ptr<KVStore>& store) {
        nn::Sequential net;
        net.Add("first", nn::Embedding(kRows, kColumns, {.sparse_grad = true}));
        net.Add("second", nn::Embedding(kRows, kColumns, {.sparse_grad = true}));
        const Context context = DeviceOf(*store, 0);
        net.CollectParams().Initialize({context}, std::make_shared<nn::Constant>(1));
        Trainer trainer(net.CollectParams(), kSgd, store,
                        {.update_on_kvstore = false, .clip_global_norm = 100});
        trainer.PushDuringBackward(2);
        if (store->rank() != 1) {
          std::vector<NDArray> losses;
          {
            const autograd::RecordScope record;
            for (size_t i = 0; i < 2; ++i) losses.push_back(net[i](NDArray::From({5}, {1}, context)));
          }
          autograd::Backward(losses);
        }
        trainer.ZeroStaleGrads();
        trainer.Step(2);
        for (const char* name : {"first.weight", "second.weight"}) {
          const Values found = net.CollectParams()[name].list_data().front().ToVector();
          EXPECT_FLOAT_EQ(found[5 * kColumns], 1 - static_cast<float>(kRate));
          EXPECT_FLOAT_EQ(found[4 * kColumns], 1);
        }
      });
}

TEST(SparseGradients, ATableOfAnotherTrainerIsRefused) {
  Job({.type = "dist_sync", .workers = 1}).RunShared([&](const std::shared_ptr<KVStore>& store) {
    Worker first(store, kSgd, {});
    first.Steps(0, 1);
    const std::string why = ErrorOf(ErrorCode::kFailedPrecondition, [&] { Worker(store, kSgd, {}); });
    EXPECT_THAT(why, HasSubstr("the servers have other values of weight than this Trainer"));
    first.Steps(1, 2);  // its parameters go on fetching
    EXPECT_THAT(first.Read(), Pointwise(FloatNear(1e-5f), Expected(1, 2)));
  });
}

// A Trainer after another one goes on from what that has trained, in the same store and in another.
TEST(SparseGradients, ASecondTrainerGoesOn) {
  Job job({.type = "dist_sync", .workers = 1});
  job.RunShared([&](const std::shared_ptr<KVStore>& store) {
    Worker worker(store, kSgd, {});
    worker.Steps(0, 1);
    const nn::ParameterDict parameters = worker.embedding.CollectParams();
    worker.trainer = std::make_unique<Trainer>(parameters, kSgd, store);
    worker.Steps(1, 2);
    worker.trainer = std::make_unique<Trainer>(parameters, kSgd, job.MakeStore(0));
    worker.Steps(2, 3);
    EXPECT_THAT(worker.Read(), Pointwise(FloatNear(1e-5f), Expected(1, 3)));
  });
}

TEST(SparseGradients, OptimisersThatNeedANormAreRefusedOnEveryWorker) {
  Job({.type = "dist_sync", .workers = 3}).RunShared([&](const std::shared_ptr<KVStore>& store) {
    for (const bool on_kvstore : {true, false}) {
      EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                          [&] {
                            Worker(store, {.kind = OptimizerKind::kLamb, .learning_rate = 0.1},
                                   {.update_on_kvstore = on_kvstore});
                          }),
                  HasSubstr("row-sparse"));
    }
  });
}

// A frozen table stays; later it goes on.
TEST(SparseGradients, AFrozenTableRests) {
  Job({.type = "dist_sync", .workers = 3}).RunShared([&](const std::shared_ptr<KVStore>& store) {
    Worker worker(store, kSgd, {});
    const Values before = worker.Read();
    worker.embedding.weight().SetGradReq(autograd::GradReq::kNull);
    worker.trainer->Step(1);
    EXPECT_EQ(worker.Read(), before);
    worker.embedding.weight().SetGradReq(autograd::GradReq::kWrite);
    worker.Steps(0, 1);
    EXPECT_THAT(worker.Read(), Pointwise(FloatNear(1e-5f), Expected(3, 1)));
  });
}

TEST(SparseGradients, ATableNeedsItsValues) {
  const auto weight =
      std::make_shared<nn::Parameter>("w", Shape{0, 4}, nn::ParameterOptions{.row_sparse = true});
  nn::ParameterDict parameters;
  parameters.Add(weight);
  parameters.Initialize();
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { Trainer(parameters, kSgd); }),
              HasSubstr("parameter w has a row-sparse gradient and no values yet"));
  weight->SetShape({3, 4});
  Trainer trainer(parameters, kSgd);
  EXPECT_THAT(ErrorOf(ErrorCode::kFailedPrecondition, [&] { weight->grad(cpu(0)); }),
              HasSubstr("rows().grad returns it"));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { weight->Cast(DType::kFloat16); }),
              HasSubstr("stays float32"));
}

}  // namespace
}  // namespace sluice::testing

// Fit in a job. The workers wait for each other, and for rank 0, which alone evaluates and calls callbacks.
// Fit refuses options and optimisers that differ between workers.
#include "sluice/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "contract/job.h"
#include "sluice/corpus.h"
#include "sluice/dataset.h"
#include "sluice/models.h"
#include "unit/expect_error.h"
#include "unit/train/line.h"

namespace sluice::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

constexpr auto kOperations = std::chrono::seconds(4);  // the operations' timeout
constexpr auto kEvaluation = std::chrono::seconds(5);  // how long rank 0 evaluates

// Sleeps for kEvaluation, like an evaluation that takes long.
void TakeTime() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, kEvaluation, [] { return false; });
}

FitReport FitFor(int64_t num_epochs, const std::shared_ptr<KVStore>& store, FitOptions options,
                 int64_t samples = 4, OptimizerConfig optimizer = {.learning_rate = 0.1}) {
  nn::Sequential net;
  net.Add("fc", nn::Dense(2));
  options.contexts = {DeviceOf(*store)};
  net.CollectParams().Initialize(options.contexts);
  const auto count = static_cast<size_t>(samples);
  const auto data =
      std::make_shared<ArrayDataset>(Shape{3}, std::vector<float>(3 * count), std::vector<int32_t>(count, 1));
  options.batch_size = 2;
  options.num_epochs = num_epochs;
  return Fit(net, data, data, std::move(optimizer), store, options);
}

TEST(FitInAJob, TheOthersWaitForAnEpochsCallbacksLongerThanForAValue) {
  Job({.type = "dist_sync", .workers = 2, .operation_timeout = kOperations}).RunShared([](const auto& store) {
    const auto slow = AfterEpoch([](const FitStatus& status) {
      if (status.next.epoch == 1) TakeTime();
    });
    EXPECT_EQ(FitFor(3, store, {.callbacks = {slow}}).epochs, 3);
  });
}

TEST(FitInAJob, NotForEver) {
  Job({.type = "dist_sync", .workers = 2}).RunShared([](const auto& store) {
    const auto slow = AfterEpoch([](const FitStatus&) { TakeTime(); });
    const std::string why = ErrorOf(ErrorCode::kDeadlineExceeded, [&] {
      FitFor(1, store, {.callbacks = {slow}, .leader_timeout = std::chrono::seconds(1)});
    });
    EXPECT_NE(why.find(store->rank() == 0 ? "worker 1" : "worker 0"), std::string::npos) << why;
  });
}

// The labels are numbers. Two workers with half of each batch take the same steps as one with the
// whole batch.
TEST(FitInAJob, RegressionIsGradientDescentOnTheBatchesOfAllWorkers) {
  for (const char* type : {"dist_sync", "dist_device_sync"}) {
    Job({.type = type, .workers = 2}).RunShared([](const auto& store) {
      nn::Dense net(kOutputs, {.in_units = kInputs});
      const Context device = DeviceOf(*store);
      net.CollectParams().Initialize({device}, nullptr, 3);
      const auto values = [&](nn::Parameter& parameter) {
        const auto floats = parameter.data(device).ToVector();
        return std::vector<double>(floats.begin(), floats.end());
      };
      Lines reference{values(net.weight()), values(*net.bias())};
      const auto data = NoisyLines(20, 1);
      FitOptions options;
      options.contexts = {device};
      options.batch_size = 10;
      options.num_epochs = 10;
      options.disp_batches = 0;
      options.loss = std::make_shared<nn::L2Loss>();
      options.metric = metric::New<metric::RootMeanSquaredError>;
      const FitReport report = Fit(net, data, data, {.learning_rate = 0.5}, store, options);
      for (int step = 0; step < 10; ++step) reference.Step(*data, 0.5);
      EXPECT_THAT(values(net.weight()), Pointwise(DoubleNear(1e-5), reference.weight));
      EXPECT_THAT(values(*net.bias()), Pointwise(DoubleNear(1e-5), reference.bias));
      if (store->rank() != 0) return;
      EXPECT_NEAR(report.test_score, std::sqrt(reference.Mean(*data, [](double e) { return e * e; })), 1e-5);
    });
  }
}

// Worker 1 calls Fit with another option than worker 0. Only worker 1 throws; worker 0 waits for it until its
// timeout.
void ExpectRefusal(const std::string& type, const std::function<FitReport(std::shared_ptr<KVStore>)>& fit,
                   const std::string& why) {
  Job job({.type = type, .workers = 2});
  job.RunShared([&](const auto& store) {
    if (store->rank() == 0) {
      EXPECT_THROW(fit(store), Error);
      return;
    }
    EXPECT_NE(ErrorOf(ErrorCode::kInvalidArgument, [&] { fit(store); }).find("worker 1 has " + why),
              std::string::npos);
    job.Leave(1);
  });
}

TEST(FitInAJob, WorkersThatWereToldDifferentRunsRefuse) {
  const auto other = [](auto change) {
    return [change](const std::shared_ptr<KVStore>& store) {
      FitOptions options;
      if (store->rank() == 1) change(options);
      return FitFor(1, store, options);
    };
  };
  ExpectRefusal("dist_sync", other([](FitOptions& o) { o.num_steps = 3; }),
                "num_steps: 3, worker 0 num_steps: -1");
  ExpectRefusal("dist_sync", other([](FitOptions& o) { o.seed = 5; }), "seed: 5, worker 0 seed: 0");
  ExpectRefusal("dist_sync", other([](FitOptions& o) { o.eval_steps = 2; }),
                "eval_steps: 2, worker 0 eval_steps: 0");
  ExpectRefusal("dist_device_sync", other([](FitOptions& o) { o.last_batch = LastBatch::kDiscard; }),
                "last_batch: discard, worker 0 last_batch: keep");
  ExpectRefusal("dist_sync", other([](FitOptions& o) {
                  o.class_weights = {1, 2};
                }),
                "class_weights: 2 of digest ");
  ExpectRefusal("dist_async", other([](FitOptions& o) { o.callbacks = {StopEarly({})}; }),
                "a callback that may stop the run: there is one, worker 0 a callback");
  ExpectRefusal("dist_sync", other([](FitOptions& o) { o.metric = metric::New<metric::Loss>; }),
                "the metric: loss, worker 0 the metric: accuracy");
  ExpectRefusal(
      "dist_sync", [](const auto& store) { return FitFor(1, store, {}, 4 + 2 * store->rank()); },
      "the number of samples: 6, worker 0 the number of samples: 4");
}

// Buckets decide which samples form a batch.
TEST(FitInAJob, WorkersWithDifferentBucketsRefuse) {
  const auto with_own_buckets = [](const std::shared_ptr<KVStore>& store) {
    const Corpus corpus = ParseCorpus("a b c\na b\na");
    const Vocabulary vocabulary(corpus);
    const auto data = BucketedSentences(
        corpus, vocabulary, {store->rank() == 0 ? std::vector<int64_t>{4} : std::vector<int64_t>{3, 4}});
    nn::Sequential net =
        nn::LanguageModel({.vocabulary = vocabulary.size(), .embedding = 2, .hidden = 2, .layers = 1});
    const FitOptions options{.contexts = {DeviceOf(*store)},
                             .batch_size = 1,
                             .loss = std::make_shared<nn::SoftmaxCrossEntropyLoss>()};
    net.CollectParams().Initialize(options.contexts);
    return Fit(net, data, nullptr, {.learning_rate = 0.1}, store, options);
  };
  ExpectRefusal("dist_sync", with_own_buckets, "the buckets: digest ");
}

// Workers whose layers carry states meet where a checkpoint has them.
TEST(FitInAJob, WorkersThatSaveStatesAfterOtherStepsRefuse) {
  const auto saving_every = [](const std::shared_ptr<KVStore>& store) {
    const Corpus corpus = ParseCorpus("a b c a b c a b c a b c");
    const Vocabulary vocabulary(corpus);
    nn::Sequential net = nn::LanguageModel(
        {.vocabulary = vocabulary.size(), .embedding = 2, .hidden = 2, .layers = 1, .carries_state = true});
    FitOptions options{.contexts = {DeviceOf(*store)},
                       .batch_size = 1,
                       .loss = std::make_shared<nn::SoftmaxCrossEntropyLoss>()};
    options.callbacks = {SaveEvery("nowhere/run", {.steps = 7 + store->rank()})};
    net.CollectParams().Initialize(options.contexts);
    return Fit(net, ContinuousText(corpus, vocabulary, {2, 3}), nullptr, {.learning_rate = 0.1}, store,
               options);
  };
  ExpectRefusal("dist_sync", saving_every, "the steps after which layers' states are saved: digest ");
}

// With clipping each worker updates its own weights, which would diverge.
TEST(FitInAJob, WorkersWithDifferentOptimizersRefuse) {
  const auto with = [](auto change) {
    return [change](const std::shared_ptr<KVStore>& store) {
      OptimizerConfig optimizer{.learning_rate = 0.1};
      if (store->rank() == 1) change(optimizer);
      return FitFor(1, store, {.clip_global_norm = 1}, 4, optimizer);
    };
  };
  ExpectRefusal("dist_sync", with([](OptimizerConfig& o) { o.kind = OptimizerKind::kAdam; }),
                "optimizer: adam, worker 0 optimizer: sgd");
  ExpectRefusal("dist_sync", with([](OptimizerConfig& o) { o.wd = 0.5; }), "wd: 0.5, worker 0 wd: 0");
  ExpectRefusal("dist_sync", with([](OptimizerConfig& o) { o.schedule.steps = {3}; }),
                "the schedule's steps: 1 of digest ");
  ExpectRefusal("dist_sync", with([](OptimizerConfig& o) { o.multipliers["fc.bias"].wd_mult = 0; }),
                "multipliers: 1 of digest ");
}

// If no callback may stop the run, workers of an async store need not take the same number of steps.
TEST(FitInAJob, WorkersOfAnAsyncStoreMayTakeDifferentNumbersOfSteps) {
  Job({.type = "dist_async", .workers = 2}).RunShared([](const auto& store) {
    EXPECT_EQ(FitFor(1 + store->rank(), store, {}).epochs, 1 + store->rank());
  });
}

}  // namespace
}  // namespace sluice::testing

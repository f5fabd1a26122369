// Fit on labels that are numbers: beside float64 gradient descent, the normal equations, and what is refused.
#include <gmock/gmock.h>

#include <cmath>

#include "base/strings.h"
#include "sluice/checkpoint.h"
#include "sluice/fit.h"
#include "sluice/parameters_file.h"
#include "unit/data/temporary_folder.h"
#include "unit/expect_error.h"
#include "unit/train/line.h"
#include "unit/train/points.h"
#include "unit/train/toy.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

nn::Dense Net(int64_t units, int contexts = 1) {
  nn::Dense net(units, {.in_units = kInputs});
  net.CollectParams().Initialize(Cpus(contexts), nullptr, 3);
  return net;
}

Lines LinesOf(const nn::Dense& net) {
  const auto weight = net.weight().data(cpu(0)).ToVector(), bias = net.bias()->data(cpu(0)).ToVector();
  return {{weight.begin(), weight.end()}, {bias.begin(), bias.end()}};
}

// A batch is all of it.
FitOptions Whole(int64_t batch_size, int contexts = 1) {
  FitOptions options;
  options.contexts = Cpus(contexts);
  options.batch_size = batch_size;
  options.num_epochs = 1;
  options.shuffle = false;
  options.disp_batches = 0;
  options.loss = std::make_shared<nn::L2Loss>();
  return options;
}

class RegressionTest : public ::testing::Test {
 protected:
  const std::shared_ptr<const ArrayDataset> train_ = NoisyLines(20, 1), test_ = NoisyLines(300, 2);
};

TEST_F(RegressionTest, IsGradientDescentOnAnyNumberOfContexts) {
  for (const char* store : {"local", "device"}) {
    for (const int contexts : {1, 2, 3}) {
      nn::Dense net = Net(kOutputs, contexts);
      Lines reference = LinesOf(net);
      FitOptions options = Whole(20, contexts);
      options.num_epochs = 10;
      options.metric = metric::New<metric::MeanAbsoluteError>;
      const FitReport report = Fit(net, train_, test_, {.learning_rate = 0.5}, StoreOf(store), options);
      for (int64_t step = 0; step < 10; ++step) {
        EXPECT_NEAR(report.train_loss.at(static_cast<size_t>(step)),
                    reference.Mean(*train_, [](double e) { return e * e / 2; }), 1e-5);
        reference.Step(*train_, 0.5);
      }
      const Lines learnt = LinesOf(net);
      EXPECT_THAT(learnt.weight, Pointwise(::testing::DoubleNear(1e-5), reference.weight));
      EXPECT_THAT(learnt.bias, Pointwise(::testing::DoubleNear(1e-5), reference.bias));
      EXPECT_NEAR(report.test_score, reference.Mean(*test_, [](double e) { return std::fabs(e); }), 1e-5);
      EXPECT_NEAR(report.test_loss, reference.Mean(*test_, [](double e) { return e * e / 2; }), 1e-5);
    }
  }
}

TEST_F(RegressionTest, EndsWhereTheNormalEquationsHold) {
  nn::Dense net = Net(kOutputs);
  FitOptions options = Whole(20);
  options.num_epochs = 500;
  Fit(net, train_, nullptr, {.learning_rate = 1}, StoreOf("local"), options);
  const Lines gradient = LinesOf(net).Gradient(*train_);
  for (const auto* part : {&gradient.weight, &gradient.bias}) {
    for (const double value : *part) EXPECT_NEAR(value, 0, 1e-6);
  }
}

// One number a sample: labels [batch] beside predictions [batch, 1].
TEST_F(RegressionTest, BinaryLabelsAndTheirAccuracy) {
  std::vector<float> samples, classes;
  for (int64_t i = 0; i < train_->size(); ++i) {
    const auto x = train_->sample(i);
    samples.insert(samples.end(), x.begin(), x.end());
    classes.push_back(x[0] > x[1] ? 1 : 0);
  }
  const auto data = std::make_shared<ArrayDataset>(Shape{kInputs}, samples, Shape{}, classes);
  nn::Dense net = Net(1, 2);
  FitOptions options = Whole(8, 2);
  options.num_epochs = 300;
  options.loss = std::make_shared<nn::SigmoidBinaryCrossEntropyLoss>();
  options.metric = metric::New<metric::BinaryAccuracy>;
  const FitReport report = Fit(net, data, data, {.learning_rate = 5}, StoreOf("local"), options);
  EXPECT_EQ(report.test_score, 1);
  EXPECT_LT(report.test_loss, 0.1);
}

// The lowest error is the best, and what a run remembers of it goes on.
TEST_F(RegressionTest, LessIsBetterWhereTheMetricSaysSo) {
  const TemporaryFolder folder;
  const std::string file = folder.path("best.safetensors");
  for (const metric::Factory& factory :
       {metric::Factory(metric::New<metric::RootMeanSquaredError>), metric::Factory()}) {
    nn::Dense net = Net(kOutputs);
    double best = INFINITY;
    int64_t when = 0;
    FitOptions options = Whole(20);
    options.num_epochs = 30;
    options.metric = factory;
    const auto watch = AfterEpoch([&](const FitStatus& s) {
      EXPECT_FALSE(s.judge.higher_is_better);
      if (s.test->score < best) best = s.test->score, when = s.step;
      if (s.step == 10) s.trainer.SetLearningRate(8);  // from here it gets worse
    });
    options.callbacks = {watch, KeepBest(file), StopEarly({.patience = 4}),
                         WriteReport(folder.path("report.html"), "lines")};
    const FitReport report = Fit(net, train_, test_, {.learning_rate = 0.3}, StoreOf("local"), options);
    EXPECT_EQ(when, 10);
    EXPECT_TRUE(report.stopped_early);
    EXPECT_EQ(report.steps, 14);
    const FileMetadata kept = LoadParameters(file, net.CollectParams());
    EXPECT_EQ(kept.at("step"), "10");
    EXPECT_EQ(kept.at("test_metric"), factory ? "rmse" : "loss");
    EXPECT_EQ(kept.at("test_score"), StrCat(best));
    const Lines lines = LinesOf(net);
    const auto mean = lines.Mean(*test_, [](double e) { return e * e; });
    EXPECT_NEAR(best, factory ? std::sqrt(mean) : mean / 2, 1e-5);
  }
}

// A run that goes on within an epoch, and one that goes on judged by something else.
TEST_F(RegressionTest, WhatARunRemembersIsOfItsMetric) {
  const TemporaryFolder folder;
  const std::string prefix = folder.path("run");
  const auto run = [&](nn::Dense& net, int64_t epochs, std::vector<double>* scores,
                       const LoadedCheckpoint& from, std::vector<CallbackPtr> callbacks) {
    FitOptions options = Whole(6, 2);  // 6, 6, 6 and 2 samples
    options.num_epochs = epochs;
    options.metric = metric::New<metric::RootMeanSquaredError>;
    callbacks.push_back(AfterEpoch([=](const FitStatus& s) { scores->push_back(s.score); }));
    options.callbacks = std::move(callbacks);
    options.start = from.next;
    options.start_step = from.step;
    options.memory = from.memory;
    return Fit(net, train_, test_, {.learning_rate = 0.1}, StoreOf("local"), options);
  };
  std::vector<double> whole, rest, other;
  nn::Dense first = Net(kOutputs, 2), second = Net(kOutputs, 2), third = Net(kOutputs, 2);
  run(first, 2, &whole, {}, {StopEarly({.patience = 3}), SaveEvery(prefix, {.steps = 2, .keep = 9})});
  const LoadedCheckpoint within = LoadCheckpoint(prefix, {1, 2}, second.CollectParams());
  run(second, 2, &rest, within, {});
  EXPECT_EQ(rest, std::vector{whole[1]});  // to the last bit
  LoadedCheckpoint accurate = LoadCheckpoint(prefix, {1, 2}, third.CollectParams());
  accurate.memory["StopEarly"] = "0x1p-1 0";  // an accuracy, which no error's score exceeds
  EXPECT_FALSE(run(third, 6, &other, accurate, {StopEarly({.patience = 3})}).stopped_early);
}

// No worker hears of a batch of none.
class CountsBatches final : public metric::MeanMetric {
 public:
  CountsBatches() : MeanMetric("batches") {}
  void Update(const ArrayList& labels, const ArrayList& predictions) override {
    ASSERT_FALSE(labels.empty());
    ASSERT_EQ(labels.size(), predictions.size());
    Add(1, 1);
  }
};

TEST_F(RegressionTest, AMetricOfOnesOwnAndTheLossAsOne) {
  nn::Dense net = Net(kOutputs, 3);
  FitOptions options = Whole(6, 3);
  options.metric = metric::New<CountsBatches>;
  EXPECT_EQ(Fit(net, train_, test_, {.learning_rate = 0.1}, StoreOf("local"), options).test_score, 1);
  options.metric = metric::New<metric::Loss>;
  const FitReport report = Fit(net, train_, test_, {.learning_rate = 0.1}, StoreOf("local"), options);
  EXPECT_EQ(report.test_score, report.test_loss);
}

TEST_F(RegressionTest, WhatDoesNotFitIsRefusedBeforeTheFirstStep) {
  int64_t steps = 0;
  const auto why = [&](int64_t units, const FitOptions& changed, const std::shared_ptr<const Dataset>& train,
                       const std::shared_ptr<const Dataset>& test) {
    nn::Dense net = Net(units);
    FitOptions options = changed;
    options.callbacks = {AfterStep([&](const FitStatus&) { ++steps; })};
    return ErrorOf(ErrorCode::kInvalidArgument,
                   [&] { Fit(net, train, test, {.learning_rate = 1}, StoreOf("local"), options); });
  };
  FitOptions options = Whole(4);
  EXPECT_THAT(why(3, options, train_, test_),
              AllOf(HasSubstr("L2Loss"), HasSubstr("[2, 3]"), HasSubstr("[2, 2]")));
  options.loss = nullptr;
  EXPECT_THAT(why(2, options, train_, test_),
              HasSubstr("Fit: the labels are arrays of [2] and no loss was given; set `loss`"));
  nn::Dense evaluated = Net(kOutputs);
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { Evaluate(evaluated, *test_, Cpus(1)); }),
              HasSubstr("Evaluate: the labels are arrays of [2]"));
  options.loss = std::make_shared<nn::L2Loss>();
  options.top_k = 2;
  EXPECT_THAT(why(2, options, train_, test_),
              HasSubstr("top_k is 2, of classes, but labels are arrays of [2]"));
  options.top_k = 0;
  options.metric = metric::New<metric::Accuracy>;
  EXPECT_THAT(why(2, options, train_, test_), HasSubstr("accuracy: labels of shape [2, 2] do not fit"));
  options.metric = nullptr;
  options.shuffle = true;
  options.class_weights = {1, 2};
  EXPECT_THAT(why(2, options, train_, test_), HasSubstr("2 class_weights, but the labels are arrays, [2]"));
  options.class_weights = {};
  const auto classes = std::make_shared<ArrayDataset>(Shape{kInputs}, std::vector<float>(3 * kInputs),
                                                      std::vector<int32_t>{0, 1, 4});
  EXPECT_THAT(why(2, options, train_, classes),
              HasSubstr("the labels of the test set are classes, those to train on arrays of [2]"));
  EXPECT_THAT(why(4, options, classes, nullptr), AllOf(HasSubstr("L2Loss"), HasSubstr("[2, 4]")));
  EXPECT_EQ(steps, 0);
}

TEST_F(RegressionTest, EvaluateGoesWithoutAMetricToo) {
  nn::Dense net = Net(kOutputs);
  const Lines lines = LinesOf(net);
  const EvalReport report = Evaluate(net, *test_, Cpus(1), {.loss = std::make_shared<nn::L2Loss>()});
  EXPECT_NEAR(report.loss, lines.Mean(*test_, [](double e) { return e * e / 2; }), 1e-5);
  EXPECT_EQ(report.score, report.loss);
}

}  // namespace
}  // namespace sluice::testing

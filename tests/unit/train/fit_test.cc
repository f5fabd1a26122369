// Softmax regression beside its float64 self: every weight, loss and count that Fit reports.
#include "sluice/fit.h"

#include <gmock/gmock.h>

#include <utility>

#include "base/strings.h"
#include "sluice/error.h"
#include "unit/expect_error.h"
#include "unit/train/points.h"
#include "unit/train/toy.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pointwise;

// Plain gradient descent on the mean cross-entropy of each batch.
class Reference {
 public:
  // Gradients are shrunk to max_norm; 0: never.
  explicit Reference(std::vector<double> weight, double max_norm = 0)
      : weight(std::move(weight)), max_norm(max_norm) {}

  // Returns the mean loss of the batch before the step.
  double Step(const Dataset& data, std::span<const uint64_t> batch, double learning_rate) {
    std::vector<double> gradient(weight.size());
    double loss = 0;
    for (const uint64_t i : batch) {
      const auto [x, label, probabilities] = Forward(data, static_cast<int64_t>(i));
      loss -= std::log(probabilities[label]);
      for (size_t c = 0; c < kClasses; ++c)
        for (size_t f = 0; f < kFeatures; ++f)
          gradient[c * kFeatures + f] += (probabilities[c] - (c == label ? 1 : 0)) * x[f];
    }
    const auto count = static_cast<double>(batch.size());
    double squares = 0;
    for (const double g : gradient) squares += g * g / (count * count);
    const bool clips = max_norm > 0 && std::sqrt(squares) > max_norm;
    const double factor = clips ? max_norm / std::sqrt(squares) : 1;
    clipped += clips;
    for (size_t i = 0; i < weight.size(); ++i) weight[i] -= learning_rate * factor * gradient[i] / count;
    return loss / count;
  }
  // The mean loss over the samples.
  double Epoch(const Dataset& data, std::span<const uint64_t> order, size_t batch, double learning_rate) {
    double sum = 0;
    for (size_t begin = 0; begin < order.size(); begin += batch) {
      const auto here = order.subspan(begin, std::min(batch, order.size() - begin));
      sum += Step(data, here, learning_rate) * static_cast<double>(here.size());
    }
    return sum / static_cast<double>(order.size());
  }
  // The mean over the first samples of -sum_c log(p_c) / classes, which no label changes.
  double LossOfAllClasses(const Dataset& data, int64_t count) const {
    double loss = 0;
    for (int64_t i = 0; i < count; ++i) {
      for (const double p : Forward(data, i).probabilities) loss -= std::log(p) / kClasses;
    }
    return loss / static_cast<double>(count);
  }
  double Accuracy(const Dataset& data, size_t k = 1) const {
    double right = 0;
    for (int64_t i = 0; i < data.size(); ++i) {
      const auto [x, label, probabilities] = Forward(data, i);
      const double own = probabilities[label];
      right += std::count_if(probabilities.begin(), probabilities.end(), [&](double p) { return p > own; }) <
               static_cast<std::ptrdiff_t>(k);
    }
    return right / static_cast<double>(data.size());
  }

  std::vector<double> weight;
  double max_norm;
  int clipped = 0;

 private:
  struct Sample {
    std::vector<float> x;
    size_t label;
    std::vector<double> probabilities;
  };
  Sample Forward(const Dataset& data, int64_t index) const {
    Sample sample{std::vector<float>(kFeatures), 0, std::vector<double>(kClasses)};
    sample.label = static_cast<size_t>(data.Get(index, sample.x));
    double total = 0;
    for (size_t c = 0; c < kClasses; ++c) {
      double score = 0;
      for (size_t f = 0; f < kFeatures; ++f) score += weight[c * kFeatures + f] * sample.x[f];
      total += sample.probabilities[c] = std::exp(score);
    }
    for (double& p : sample.probabilities) p /= total;
    return sample;
  }
};

class FitTest : public ::testing::Test {
 protected:
  static constexpr double kRate = 0.5;
  // Shapes are learnt from the first sample.
  FitReport Run(const FitOptions& options, const std::string& store = "local") {
    net_ = std::make_unique<nn::Dense>(int64_t{kClasses}, nn::Dense::Options{.use_bias = false});
    net_->CollectParams().SetGradReq(grad_req_);
    net_->CollectParams().Initialize(options.contexts, nullptr, 4);
    return Fit(*net_, train_, test_, {.learning_rate = kRate}, StoreOf(store), options);
  }
  double Step(Reference& reference, size_t begin, size_t size) const {
    return reference.Step(*train_, std::span(order_).subspan(begin, size), kRate);
  }
  // The weights that Run starts from.
  static Reference Start() {
    const auto values = nn::Xavier().Values("weight", Shape{int64_t{kClasses}, int64_t{kFeatures}}, 4);
    return Reference({values.begin(), values.end()});
  }
  void ExpectWeights(const Reference& reference) {
    for (const NDArray& weight : net_->weight().list_data())
      EXPECT_THAT(weight.ToVector(), Pointwise(FloatNear(1e-5f), reference.weight)) << weight.context();
  }
  static FitOptions InOrder(int64_t batch_size, int contexts = 1) {
    FitOptions options;
    options.batch_size = batch_size;
    options.contexts = Cpus(contexts);
    options.shuffle = false;
    options.disp_batches = 0;
    return options;
  }

  const std::shared_ptr<const Dataset> train_ = std::make_shared<RandomPoints>(22, 1);
  const std::shared_ptr<const Dataset> test_ = std::make_shared<RandomPoints>(300, 2);  // two batches
  std::vector<uint64_t> order_ = EpochOrder({.num_samples = 22, .batch_size = 1, .shuffle = false}, 0);
  std::unique_ptr<nn::Dense> net_;
  autograd::GradReq grad_req_ = autograd::GradReq::kWrite;
};

TEST_F(FitTest, EpochsAreGradientDescentOnAnyNumberOfContexts) {
  for (const char* store : {"local", "device"}) {
    for (const int contexts : {1, 2, 3}) {
      FitOptions options = InOrder(8, contexts);  // 8, 8 and 6 samples
      options.num_epochs = 3;
      options.top_k = 2;
      std::vector<int64_t> ended;
      options.callbacks = {AfterEpoch([&](const FitStatus& status) { ended.push_back(status.next.epoch); })};
      const FitReport report = Run(options, store);
      Reference reference = Start();
      std::vector<double> losses;
      for (int epoch = 0; epoch < 3; ++epoch) losses.push_back(reference.Epoch(*train_, order_, 8, kRate));
      ExpectWeights(reference);
      EXPECT_EQ(report.steps, 9);
      EXPECT_EQ(report.epochs, 3);
      EXPECT_THAT(report.train_loss, Pointwise(::testing::DoubleNear(1e-5), losses));
      EXPECT_DOUBLE_EQ(report.test_score, reference.Accuracy(*test_));
      EXPECT_DOUBLE_EQ(report.test_top_k, reference.Accuracy(*test_, 2));
      EXPECT_THAT(ended, ElementsAre(1, 2, 3));
    }
  }
}

TEST_F(FitTest, TheLastBatchIsDiscardedOrRolledOver) {
  FitOptions options = InOrder(8, 2);
  options.num_epochs = 3;
  options.last_batch = LastBatch::kDiscard;
  FitReport report = Run(options);
  Reference reference = Start();
  for (int epoch = 0; epoch < 3; ++epoch) reference.Epoch(*train_, std::span(order_).first(16), 8, kRate);
  ExpectWeights(reference);
  EXPECT_EQ(report.steps, 6);

  options.last_batch = LastBatch::kRollover;
  report = Run(options);
  reference = Start();
  std::vector<uint64_t> thrice;
  for (int epoch = 0; epoch < 3; ++epoch) thrice.insert(thrice.end(), order_.begin(), order_.end());
  reference.Epoch(*train_, std::span(thrice).first(64), 8, kRate);
  ExpectWeights(reference);
  EXPECT_EQ(report.steps, 8);
  EXPECT_EQ(report.train_loss.size(), 3u);

  options.num_steps = 6;
  report = Run(options);
  reference = Start();
  reference.Epoch(*train_, std::span(thrice).first(48), 8, kRate);
  ExpectWeights(reference);
  EXPECT_EQ(report.epochs, 3);  // they had 2, 3 and 1 of 3 steps
}

TEST_F(FitTest, ClassWeightsChooseTheSamples) {
  FitOptions options = InOrder(8);
  options.shuffle = true;
  options.num_epochs = 2;
  options.loader_threads = 3;
  options.class_weights = {1, 0, 3};
  Run(options);
  Reference reference = Start();
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < train_->size(); ++i) labels.push_back(train_->Label(i));
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    const auto order =
        WeightedEpochOrder({.num_samples = 22, .batch_size = 8}, epoch, labels, options.class_weights);
    reference.Epoch(*train_, order, 8, kRate);
  }
  ExpectWeights(reference);
}

TEST_F(FitTest, TrainsWithTheLossThatItIsGiven) {
  FitOptions options = InOrder(8);
  options.num_steps = 1;
  options.loss = std::make_shared<nn::SoftmaxCrossEntropyLoss>(
      nn::SoftmaxCrossEntropyLoss::Options{.label_smoothing = 1});  // labels say nothing: log of all classes
  const FitReport report = Run(options);
  EXPECT_NEAR(report.train_loss.at(0), Start().LossOfAllClasses(*train_, 8), 1e-5);
  options.loss = std::make_shared<nn::SoftmaxCrossEntropyLoss>(nn::Reduction::kMean);
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [&] { Run(options); }),
              HasSubstr("for 2 samples the loss gave an array of shape [1]"));
}

TEST_F(FitTest, GradientsAreClippedByTheNormOfTheWholeBatch) {
  constexpr double kMaxNorm = 0.6;
  for (const char* store : {"local", "device"}) {
    for (const int contexts : {1, 2, 7}) {  // 6 samples leave nothing for the seventh
      FitOptions options = InOrder(8, contexts);
      options.num_epochs = 4;
      options.clip_global_norm = kMaxNorm;
      Run(options, store);
      Reference reference(Start().weight, kMaxNorm);
      for (int epoch = 0; epoch < 4; ++epoch) reference.Epoch(*train_, order_, 8, kRate);
      ExpectWeights(reference);
      EXPECT_GT(reference.clipped, 0);
      EXPECT_LT(reference.clipped, 12);
    }
  }
}

TEST_F(FitTest, GradientsThatAddUpBeginEveryStepAtZero) {
  FitOptions options = InOrder(8, 2);
  options.num_epochs = 2;
  grad_req_ = autograd::GradReq::kAdd;
  for (const double max_norm : {0.0, 0.1}) {
    options.clip_global_norm = max_norm;
    Run(options);
    Reference reference(Start().weight, max_norm);
    for (int epoch = 0; epoch < 2; ++epoch) reference.Epoch(*train_, order_, 8, kRate);
    ExpectWeights(reference);
  }
}

TEST_F(FitTest, StepsAreCountedAcrossEpochs) {
  FitOptions options = InOrder(8, 2);
  options.num_steps = 4;
  std::vector<Position> epochs;
  options.callbacks = {AfterEpoch([&](const FitStatus& s) { epochs.push_back(s.next); })};
  const FitReport report = Run(options);
  Reference reference = Start();
  const std::vector<double> losses = {Step(reference, 0, 8), Step(reference, 8, 8), Step(reference, 16, 6),
                                      Step(reference, 0, 8)};
  ExpectWeights(reference);
  EXPECT_EQ(report.steps, 4);
  EXPECT_EQ(report.epochs, 2);
  EXPECT_THAT(epochs, ElementsAre(Position{1, 0}));
  EXPECT_GT(report.samples_per_sec, 0);  // also of a run that ends within its warm-up
  EXPECT_THAT(report.train_loss, Pointwise(::testing::DoubleNear(1e-5), losses));
  EXPECT_DOUBLE_EQ(report.test_score, reference.Accuracy(*test_));
}

TEST_F(FitTest, NoStepsLeaveTheWeightsAndAreEvaluated) {
  FitOptions options = InOrder(8);
  options.num_steps = 0;
  const FitReport report = Run(options);
  ExpectWeights(Start());
  EXPECT_THAT(report.train_loss, IsEmpty());
  EXPECT_DOUBLE_EQ(report.test_score, Start().Accuracy(*test_));
}

TEST_F(FitTest, WorkLoadsCutBatchesAndChangeNoValue) {
  FitOptions options = InOrder(18, 2);
  options.num_epochs = 2;
  options.work_load = {10, 1};  // the epoch's last 4 samples would leave nothing for the second
  Run(options);
  Reference reference = Start();
  for (int epoch = 0; epoch < 2; ++epoch) reference.Epoch(*train_, order_, 18, kRate);
  ExpectWeights(reference);
}

// Devices drop what one device would, and a run that goes on draws where the whole one would.
TEST_F(FitTest, DropoutIsTheSameOnAnyNumberOfContexts) {
  const auto train = [&](const FitOptions& options, const std::vector<float>& start = {}) {
    nn::Sequential net;
    net.Add("hidden", nn::Dense(8)).Add("drop", nn::Dropout(0.5)).Add("out", nn::Dense(int64_t{kClasses}));
    const nn::ParameterDict parameters = net.CollectParams();
    parameters.Initialize(options.contexts, nullptr, 4);
    const Shape shapes[] = {{8, int64_t{kFeatures}}, {8}, {int64_t{kClasses}, 8}, {int64_t{kClasses}}};
    size_t at = 0;
    for (size_t i = 0; i < 4 && !start.empty(); ++i) {
      const auto size = static_cast<size_t>(shapes[i].size());
      parameters.at(i)->SetData(NDArray::From(std::span(start).subspan(at, size), shapes[i]));
      at += size;
    }
    Fit(net, train_, test_, {.learning_rate = kRate}, StoreOf("local"), options);
    std::vector<float> weights;
    for (const auto& parameter : parameters) {
      const std::vector<float> values = parameter->list_data().back().ToVector();
      weights.insert(weights.end(), values.begin(), values.end());
    }
    return weights;
  };
  FitOptions options = InOrder(8);
  options.num_epochs = 3;
  options.seed = 1;
  const std::vector<float> one = train(options);
  for (const int contexts : {2, 3}) {
    options.contexts = Cpus(contexts);
    EXPECT_THAT(train(options), Pointwise(FloatNear(1e-5f), one)) << contexts;
  }
  options.contexts = Cpus(1);
  options.num_epochs = 1;
  const std::vector<float> first = train(options);
  options.start = {1, 0};
  options.start_step = 3;
  options.num_epochs = 3;
  EXPECT_THAT(train(options, first), Pointwise(FloatNear(1e-5f), one));
  options.start = {};
  options.start_step = 0;
  options.seed = 2;  // other masks
  EXPECT_THAT(train(options), ::testing::Not(Pointwise(FloatNear(1e-2f), one)));
}

TEST_F(FitTest, AnyBatchIsCutOverAnyNumberOfContexts) {
  for (int64_t batch = 1; batch <= train_->size(); ++batch) {
    FitOptions options = InOrder(batch, 7);
    options.num_epochs = 1;
    Run(options);
    Reference reference = Start();
    reference.Epoch(*train_, order_, static_cast<size_t>(batch), kRate);
    ExpectWeights(reference);
  }
}

// A run that goes on takes the orders of the epochs that follow.
TEST_F(FitTest, EpochsAreShuffledByTheirNumber) {
  FitOptions options = InOrder(8, 2);
  options.shuffle = true;
  options.seed = 7;
  options.start = {3, 0};
  options.num_epochs = 5;
  const FitReport report = Run(options);
  Reference reference = Start();
  for (const int64_t epoch : {3, 4}) {
    order_ = EpochOrder({.num_samples = 22, .batch_size = 8, .seed = 7}, epoch);
    reference.Epoch(*train_, order_, 8, kRate);
  }
  ExpectWeights(reference);
  EXPECT_EQ(report.epochs, 2);
  EXPECT_EQ(report.steps, 6);
}

TEST_F(FitTest, SaysWhatTheSamplesAreOrNothing) {
  FitOptions options;
  options.num_epochs = 1;
  options.batch_size = 4;
  options.disp_batches = 1;
  const auto printed = [&] {
    ::testing::internal::CaptureStdout();
    Run(options);
    return ::testing::internal::GetCapturedStdout();
  };
  EXPECT_THAT(printed(), AllOf(HasSubstr(" samples/s\n"), Not(HasSubstr("images"))));
  options.samples = "texts";
  EXPECT_THAT(printed(),
              AllOf(HasSubstr("epoch 1 batch 2/6 "), HasSubstr(" texts/s\nepoch 1 test accuracy ")));
  options.quiet = options.live_progress = true;
  EXPECT_EQ(printed(), "");
}

TEST_F(FitTest, BadOptionsAreRefused) {
  const auto why = [&](const FitOptions& options) -> std::string {
    try {
      Run(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(why(InOrder(0)), HasSubstr("batch_size is 0"));
  FitOptions options = InOrder(8, 2);
  options.work_load = {1};
  EXPECT_THAT(why(options), HasSubstr("work_load"));
  options.work_load = {1, -1};
  EXPECT_THAT(why(options), HasSubstr("holds -1"));
  options.work_load = {1000, 1};
  EXPECT_THAT(why(options), HasSubstr("Too many slices. Some splits are empty."));
}

TEST_F(FitTest, WhatGoesByTheTestSetIsRefusedWithoutOne) {
  for (const auto& [callback, name] :
       {std::pair(StopEarly({.patience = 4}), "StopEarly"), {KeepBest("best"), "KeepBest best"}}) {
    FitOptions options = InOrder(8);
    options.callbacks = {AfterEpoch([](const FitStatus&) {}), callback};
    nn::Dense net(int64_t{kClasses});
    net.CollectParams().Initialize();
    EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument,
                        [&] { Fit(net, train_, nullptr, {}, StoreOf("local"), options); }),
                HasSubstr(StrCat("Fit: ", name, " goes by the score on a test set")));
  }
}

}  // namespace
}  // namespace sluice::testing

// Who listens to a run: when they are called, what they leave, what they remember.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/strings.h"
#include "sluice/callback.h"
#include "sluice/checkpoint.h"
#include "sluice/fit.h"
#include "sluice/parameters_file.h"
#include "train/report/report.h"
#include "unit/expect_error.h"
#include "unit/train/points.h"
#include "unit/train/toy.h"

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t kStepsPerEpoch = 3;  // an epoch's: 22 samples in batches of 8

class CallbackTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "sluice-callbacks-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  FitReport Run(std::vector<CallbackPtr> callbacks, int64_t epochs, double learning_rate = 0.1,
                const LoadedCheckpoint& start = {}) {
    FitOptions options;
    options.batch_size = 8;
    options.num_epochs = epochs;
    options.disp_batches = 0;
    options.seed = 7;
    options.callbacks = std::move(callbacks);
    options.start = start.next;
    options.start_step = start.step;
    options.memory = start.memory;
    options.eval_steps = eval_steps_;
    return Fit(net_, train_, test_, {.learning_rate = learning_rate}, StoreOf("local"), options);
  }
  static nn::Dense Net(uint64_t seed) {
    nn::Dense net(int64_t{kClasses});
    net.CollectParams().Initialize({cpu(0)}, nullptr, seed);
    return net;
  }
  std::string Text(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  int64_t eval_steps_ = 0;
  fs::path folder_;
  nn::Dense net_ = Net(4);
  const std::shared_ptr<const Dataset> train_ = std::make_shared<RandomPoints>(22, 1);
  const std::shared_ptr<const Dataset> test_ = std::make_shared<RandomPoints>(300, 2);
};

TEST_F(CallbackTest, HearOfEveryStepButTheLastOfAnEpochAndOfEveryEpoch) {
  std::vector<Position> steps, epochs;
  std::vector<int64_t> totals;
  std::vector<bool> evaluated;
  Run({AfterStep([&](const FitStatus& s) {
         steps.push_back(s.next);
         totals.push_back(s.step);
         EXPECT_FALSE(s.test);
       }),
       AfterEpoch([&](const FitStatus& s) {
         epochs.push_back(s.next);
         evaluated.push_back(s.test.has_value());
         EXPECT_GT(s.loss, 0);
         EXPECT_DOUBLE_EQ(s.learning_rate, 0.1);
         EXPECT_NEAR(s.test->loss, std::log(double{kClasses}), 0.5);
       })},
      2);
  EXPECT_THAT(steps, ElementsAre(Position{0, 1}, Position{0, 2}, Position{1, 1}, Position{1, 2}));
  EXPECT_THAT(totals, ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(epochs, ElementsAre(Position{1, 0}, Position{2, 0}));
  EXPECT_THAT(evaluated, ElementsAre(true, true));
}

TEST_F(CallbackTest, OfCheckpointsForStepsTheNewestStay) {
  const std::string prefix = folder_ / "run";
  Run({SaveEvery(prefix, {.epochs = 2, .steps = 1, .keep = 3})}, 3);
  EXPECT_THAT(ListCheckpoints(prefix),
              ElementsAre(Position{2, 0}, Position{2, 1}, Position{2, 2}, Position{3, 0}));
  EXPECT_FALSE(fs::exists(CheckpointStatesFile(prefix, {1, 1})));
  std::ofstream(folder_ / "run-0009.safetensors.1f.tmp") << "a part";
  std::ofstream(folder_ / "runner-0001.safetensors") << "another run";
  EXPECT_THAT(ListCheckpoints(prefix), SizeIs(4));
  ErrorOf(ErrorCode::kInvalidArgument, [&] { SaveEvery(prefix, {.steps = -1}); });
  ErrorOf(ErrorCode::kInvalidArgument, [&] { SaveEvery(prefix, {.steps = 1, .keep = 0}); });
  ErrorOf(ErrorCode::kUnavailable, [&] { ListCheckpoints(folder_ / "nowhere" / "run"); });
}

// Epochs have three steps.
TEST_F(CallbackTest, StepsUpToACheckpointAreThoseOfTheRun) {
  const std::string prefix = folder_ / "run";
  Run({SaveEvery(prefix, {.steps = 4, .keep = 9})}, 4);
  EXPECT_THAT(ListCheckpoints(prefix), ElementsAre(Position{1, 1}, Position{2, 2}, Position{4, 0}));
}

TEST_F(CallbackTest, ARunThatIsAskedToEndSavesWhereItIs) {
  const std::string prefix = folder_ / "run";
  // After the 2nd step, within an epoch; after the 3rd and the epoch; after the 4th, where it saves anyway.
  for (const auto& [step, position, steps] : {std::tuple(2, Position{0, 2}, int64_t{0}),
                                              {3, Position{1, 0}, int64_t{0}},
                                              {4, Position{1, 1}, int64_t{4}}}) {
    int asked = 0;
    const auto saver = SaveEvery(prefix, {.steps = steps, .end_asked = [&] { return ++asked == step; }});
    EXPECT_THAT(ErrorOf(ErrorCode::kCancelled, [&] { Run({saver}, 9); }),
                HasSubstr(CheckpointFile(prefix, position)));
    EXPECT_THAT(ListCheckpoints(prefix), ElementsAre(position));
    const LoadedCheckpoint loaded = LoadCheckpoint(prefix, position, net_.CollectParams());
    EXPECT_EQ(loaded.step, step);
    EXPECT_FALSE(loaded.states.empty());
    RemoveCheckpoint(prefix, position);
  }
}

TEST_F(CallbackTest, ARunOfSoManyStepsLeavesItsEnd) {
  FitOptions options;
  options.batch_size = 8;
  options.num_steps = 5;
  options.disp_batches = 0;
  const std::string prefix = folder_ / "run";
  options.callbacks = {SaveEvery(prefix, {.epochs = 1})};
  Fit(net_, train_, test_, {.learning_rate = 0.5}, StoreOf("local"), options);
  EXPECT_THAT(ListCheckpoints(prefix), ElementsAre(Position{1, 0}, Position{1, 2}));
}

TEST_F(CallbackTest, ARunRemovesItsOwnCheckpointsAloneAlsoThoseBeforeItWentOn) {
  const std::string prefix = folder_ / "run";
  const auto saver = [&] { return SaveEvery(prefix, {.steps = 1, .keep = 2}); };
  std::ofstream(CheckpointFile(prefix, {0, 0})) << "another's";
  Run({saver()}, 2);
  EXPECT_THAT(ListCheckpoints(prefix), ElementsAre(Position{0, 0}, Position{1, 2}, Position{2, 0}));
  std::ofstream(CheckpointFile(prefix, {0, 1})) << "another's";
  const LoadedCheckpoint loaded = LoadCheckpoint(prefix, {2, 0}, net_.CollectParams());
  Run({SaveEvery(folder_.string() + "//run", {.steps = 1, .keep = 2})}, 3, 0.1, loaded);
  EXPECT_THAT(ListCheckpoints(prefix),
              ElementsAre(Position{0, 0}, Position{0, 1}, Position{2, 2}, Position{3, 0}));
  for (const char* memory : {"1", "1:x", "1:-1", "-1:2", "1:2 ", "1:2:3"}) {
    LoadedCheckpoint spoilt = loaded;
    spoilt.memory["SaveEvery run"] = memory;
    EXPECT_THAT(ErrorOf(ErrorCode::kDataLoss, [&] { Run({saver()}, 3, 0.1, spoilt); }), HasSubstr(memory));
  }
}

// Who then goes on from the newest checkpoint would go on from another run's.
TEST_F(CallbackTest, ARunIsNotSavedAmongCheckpointsOfAnotherOneThatCameFurther) {
  const std::string prefix = folder_ / "run";
  Run({SaveEvery(prefix, {.epochs = 1})}, 3);
  const LoadedCheckpoint first = LoadCheckpoint(prefix, {1, 0}, net_.CollectParams());
  const auto before = ListCheckpoints(prefix);
  for (const LoadedCheckpoint& start : {LoadedCheckpoint(), first}) {
    const std::string why = ErrorOf(ErrorCode::kAlreadyExists, [&] {
      Run({SaveEvery(prefix, {.epochs = 1, .steps = 1})}, 3, 0.1, start);
    });
    EXPECT_THAT(why, HasSubstr(CheckpointFile(prefix, {3, 0})));
    EXPECT_EQ(ListCheckpoints(prefix), before);
  }
  Run({SaveEvery(prefix, {.epochs = 1})}, 4, 0.1, LoadCheckpoint(prefix, {3, 0}, net_.CollectParams()));
  EXPECT_THAT(ListCheckpoints(prefix), SizeIs(4));
}

TEST_F(CallbackTest, TheBestEpochIsKept) {
  const std::string file = folder_ / "best.safetensors";
  double best = 0;
  int64_t when = 0;
  std::vector<std::vector<float>> values;
  const auto watch = AfterEpoch([&](const FitStatus& s) {
    if (s.test->score <= best) return;
    best = s.test->score;
    when = s.next.epoch;
    values.clear();
    for (const auto& p : s.net.CollectParams()) values.push_back(p->list_data().front().ToVector());
  });
  Run({watch, KeepBest(file)}, 6, 1.5);
  nn::Dense loaded = Net(9);
  const FileMetadata metadata = LoadParameters(file, loaded.CollectParams());
  EXPECT_EQ(metadata.at("epoch"), std::to_string(when));
  std::vector<std::vector<float>> found;
  loaded(NDArray(Shape{1, int64_t{kFeatures}}, cpu(0)));
  for (const auto& p : loaded.CollectParams()) found.push_back(p->list_data().front().ToVector());
  EXPECT_EQ(found, values);
}

// With a rate of nothing the first epoch is the best.
TEST_F(CallbackTest, ARunThatGetsNoBetterEndsEarlyAlsoWhenItGoesOn) {
  const std::string prefix = folder_ / "run";
  const auto callbacks = [] { return std::vector<CallbackPtr>{StopEarly({.patience = 4})}; };
  const FitReport report = Run({StopEarly({.patience = 4}), SaveEvery(prefix, {.epochs = 1})}, 20, 1e-30);
  EXPECT_TRUE(report.stopped_early);
  EXPECT_EQ(report.epochs, 5);
  const LoadedCheckpoint loaded = LoadCheckpoint(prefix, {3, 0}, net_.CollectParams());
  EXPECT_EQ(Run(callbacks(), 20, 1e-30, loaded).epochs, 2);  // epochs 4 and 5
  EXPECT_FALSE(Run(callbacks(), 2, 1e-30).stopped_early);
  ErrorOf(ErrorCode::kInvalidArgument, [] { StopEarly({.patience = 0}); });
  for (const std::string memory : {"soon", "nan 0", "inf 0", "1.5 0", "-1 0", "0.5 -1", "0.5"}) {
    LoadedCheckpoint spoilt = loaded;
    spoilt.memory["StopEarly"] = memory;
    EXPECT_THAT(ErrorOf(ErrorCode::kDataLoss, [&] { Run(callbacks(), 20, 0.1, spoilt); }),
                HasSubstr("'" + memory + "'"));
  }
}

// With a rate of nothing only the first epoch is better than the ones before.
TEST_F(CallbackTest, TheRateIsLoweredWhenTheScoreStallsAlsoWhenTheRunGoesOn) {
  const std::string prefix = folder_ / "run";
  std::vector<double> rates;
  const auto callbacks = [&] {
    return std::vector<CallbackPtr>{
        AfterEpoch([&](const FitStatus& status) { rates.push_back(status.learning_rate); }),
        LowerRateOnPlateau({.factor = 0.25, .patience = 2}), SaveEvery(prefix, {.epochs = 1})};
  };
  Run(callbacks(), 8, 0x1p-100);
  const std::vector<double> expected = {0x1p-100, 0x1p-100, 0x1p-100, 0x1p-102,
                                        0x1p-102, 0x1p-104, 0x1p-104, 0x1p-106};
  EXPECT_EQ(rates, expected);
  const LoadedCheckpoint loaded = LoadCheckpoint(prefix, {4, 0}, net_.CollectParams());
  for (int64_t epoch = 5; epoch <= 8; ++epoch) RemoveCheckpoint(prefix, {epoch, 0});
  rates.clear();
  Run(callbacks(), 8, 0x1p-100, loaded);
  EXPECT_EQ(rates, std::vector(expected.begin() + 4, expected.end()));
  for (const std::string memory : {"", "1", "x 0.5 0", "-1 0.5 0", "1 soon"}) {
    LoadedCheckpoint spoilt = loaded;
    spoilt.memory["LowerRateOnPlateau"] = memory;
    ErrorOf(ErrorCode::kDataLoss, [&] { Run(callbacks(), 20, 0.1, spoilt); });
  }
  ErrorOf(ErrorCode::kInvalidArgument, [] { LowerRateOnPlateau({.factor = 1}); });
  ErrorOf(ErrorCode::kInvalidArgument, [] { LowerRateOnPlateau({.patience = 0}); });
}

// The same command again changes nothing any more.
TEST_F(CallbackTest, ARunThatWasStoppedStaysSo) {
  const std::string prefix = folder_ / "run";
  std::vector<CallbackPtr> callbacks = {SaveEvery(prefix, {.epochs = 1}), StopEarly({.patience = 2})};
  EXPECT_EQ(Run(callbacks, 20, 1e-30).epochs, 3);
  const LoadedCheckpoint last = LoadCheckpoint(prefix, {3, 0}, net_.CollectParams());
  callbacks = {SaveEvery(prefix, {.epochs = 1}), StopEarly({.patience = 2})};
  const FitReport again = Run(callbacks, 20, 1e-30, last);
  EXPECT_EQ(again.epochs, 0);
  EXPECT_TRUE(again.stopped_early);
  EXPECT_GT(again.test_loss, 0);  // evaluated all the same
}

TEST_F(CallbackTest, ARunThatGoesOnWithinAnEpochReportsAllOfIt) {
  const std::string prefix = folder_ / "run";
  std::vector<std::pair<double, double>> whole, rest;
  const auto note = [](auto& into) {
    return AfterEpoch([&into](const FitStatus& s) { into.emplace_back(s.loss, s.score); });
  };
  Run({note(whole), SaveEvery(prefix, {.steps = 2})}, 2);
  net_ = Net(5);
  const LoadedCheckpoint within = LoadCheckpoint(prefix, {1, 1}, net_.CollectParams());
  Run({note(rest)}, 2, 0.1, within);
  ASSERT_EQ(whole.size(), 2u);
  EXPECT_EQ(rest, std::vector{whole[1]});  // to the last bit
  LoadedCheckpoint spoilt = within;
  for (const char* text : {"", "0x1p+1", "1 2 -3", "x 1 8", "1 x 8", "1 9 8", "1 -1 8", "1 1 8 8"}) {
    spoilt.memory[FitStatus::kMemory] = text;
    EXPECT_THAT(ErrorOf(ErrorCode::kDataLoss, [&] { Run({}, 2, 0.1, spoilt); }),
                HasSubstr(StrCat("'", text, "'")));
  }
}

TEST_F(CallbackTest, EvaluationsWithinAnEpochCountForTheBest) {
  const std::string file = folder_ / "best.safetensors";
  FitOptions options;
  options.batch_size = 8;
  options.num_steps = 4;
  options.disp_batches = 0;
  options.eval_steps = 2;
  double best = 0;
  int64_t when = 0;
  std::vector<int64_t> evaluated;
  const auto watch = [&](const FitStatus& s) {
    if (!s.test) return;
    evaluated.push_back(s.step);
    if (s.test->score > best) best = s.test->score, when = s.step;
  };
  options.callbacks = {AfterStep(watch), AfterEpoch(watch), KeepBest(file)};
  Fit(net_, train_, test_, {.learning_rate = 0.5}, StoreOf("local"), options);
  EXPECT_THAT(evaluated, ElementsAre(2, 3, 4));
  EXPECT_EQ(LoadParameters(file, net_.CollectParams()).at("step"), std::to_string(when));
}

// The evaluation at its end, too, which the last save of steps came before.
TEST_F(CallbackTest, ARunOfSoManyStepsRemembersItsLastEvaluation) {
  const std::string prefix = folder_ / "run", file = folder_ / "best.safetensors";
  FitOptions options;
  options.batch_size = 8;
  options.num_steps = 4;  // in the second epoch
  options.disp_batches = 0;
  options.callbacks = {KeepBest(file), SaveEvery(prefix, {.steps = 2})};
  const double last = Fit(net_, train_, test_, {.learning_rate = 0.5}, StoreOf("local"), options).test_score;
  const LoadedCheckpoint loaded =
      LoadCheckpoint(prefix, ListCheckpoints(prefix).back(), net_.CollectParams());
  const std::string kept = LoadParameters(file, net_.CollectParams()).at("test_accuracy");
  EXPECT_EQ(loaded.step, 4);
  const double remembered = std::strtod(loaded.memory.at("KeepBest best.safetensors").c_str(), nullptr);
  EXPECT_GE(remembered, last);
  EXPECT_EQ(StrCat(remembered), kept);
}

// Two that save under one name in two folders, and two that would stop.
TEST_F(CallbackTest, ThoseOfOneNameRememberEachTheirOwn) {
  fs::create_directories(folder_ / "a");
  fs::create_directories(folder_ / "b");
  const std::string steps = folder_ / "a/run", epochs = folder_ / "b/run";
  const auto callbacks = [&] {
    return std::vector<CallbackPtr>{SaveEvery(epochs, {.epochs = 1}), SaveEvery(steps, {.steps = 2}),
                                    StopEarly({.patience = 20}), StopEarly({.patience = 3})};
  };
  Run(callbacks(), 2, 1e-30);
  net_ = Net(5);
  const LoadedCheckpoint loaded = LoadCheckpoint(steps, {2, 0}, net_.CollectParams());
  EXPECT_EQ(loaded.memory.count("StopEarly #2"), 1u);
  EXPECT_EQ(Run(callbacks(), 20, 1e-30, loaded).epochs,
            2);  // the fourth in all is the third without a better one
  EXPECT_EQ(ListCheckpoints(epochs).size(), 4u);
  EXPECT_EQ(ListCheckpoints(steps).size(), 2u);
}

TEST_F(CallbackTest, TheLearningRateIsTheOneThatACallbackHasSet) {
  std::vector<double> rates;
  Run({AfterEpoch([&](const FitStatus& status) {
        rates.push_back(status.learning_rate);
        status.trainer.SetLearningRate(status.learning_rate / 2);
      })},
      3, 0.5);
  EXPECT_THAT(rates, ElementsAre(0.5, 0.25, 0.125));
}

// Such as the best ones so far.
TEST_F(CallbackTest, TrainingGoesOnFromWeightsThatACallbackHasWritten) {
  const auto set_once = [](const FitStatus& status) {
    if (status.next != Position{1, 0}) return;
    for (const auto& parameter : status.net.CollectParams()) {
      NDArray value(parameter->shape());
      value.Fill(3);
      parameter->SetData(value);
    }
  };
  Run({AfterEpoch(set_once)}, 3, 1e-30);
  for (const auto& parameter : net_.CollectParams())
    EXPECT_THAT(parameter->list_data().front().ToVector(), Each(3));
}

TEST_F(CallbackTest, ARunThatDivergesHasNoBest) {
  const std::string file = folder_ / "best.safetensors";
  net_(NDArray(Shape{1, int64_t{kFeatures}}));  // parameters learn their shapes
  for (NDArray& weight : net_.weight().list_data()) weight.Fill(std::nan(""));
  ::testing::internal::CaptureStdout();
  Run({KeepBest(file)}, 2);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("warning: the loss of epoch 1 is nan"));
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(CallbackTest, AReportHoldsThePointsOfTheWholeRun) {
  const std::string file = folder_ / "report.html", prefix = folder_ / "run";
  const auto callbacks = [&] { return std::vector<CallbackPtr>{WriteReport(file, "a <b> & c")}; };
  Run({WriteReport(file, "a <b> & c"), SaveEvery(prefix, {.epochs = 1})}, 3);
  const auto whole = train::PointsOf(Text("report.html"));
  ASSERT_TRUE(whole);
  ASSERT_THAT(*whole, SizeIs(3));
  EXPECT_EQ((*whole)[2].epoch, 3);
  EXPECT_EQ((*whole)[2].step, 3 * kStepsPerEpoch);
  EXPECT_TRUE((*whole)[2].test_score);
  EXPECT_THAT(Text("report.html"), HasSubstr("<h1>a &lt;b&gt; &amp; c</h1>"));
  const LoadedCheckpoint loaded = LoadCheckpoint(prefix, {2, 0}, net_.CollectParams());
  Run(callbacks(), 4, 0.1, loaded);  // goes on after the second: the third is drawn anew
  const auto gone_on = train::PointsOf(Text("report.html"));
  ASSERT_THAT(gone_on.value(), SizeIs(4));
  EXPECT_EQ(gone_on->at(1), whole->at(1));
  EXPECT_EQ(gone_on->at(2).train_loss, whole->at(2).train_loss);
  Run(callbacks(), 1);
  EXPECT_THAT(train::PointsOf(Text("report.html")).value(), SizeIs(1));
}

TEST_F(CallbackTest, AReportHoldsTheEvaluationsWithinEpochs) {
  const std::string file = folder_ / "report.html", prefix = folder_ / "run";
  eval_steps_ = 2;
  const auto steps = [&] {
    std::vector<std::pair<int64_t, bool>> found;
    const auto points = train::PointsOf(Text("report.html")).value();
    for (const train::CurvePoint& point : points) {
      EXPECT_TRUE(point.test_score);
      EXPECT_EQ(point.epoch, (point.step + kStepsPerEpoch - 1) / kStepsPerEpoch);
      found.emplace_back(point.step, point.within);
    }
    return found;
  };
  const auto all =
      ElementsAre(std::pair(2, true), std::pair(3, false), std::pair(4, true), std::pair(6, false));
  Run({WriteReport(file, "t"), SaveEvery(prefix, {.steps = 1, .keep = 9})}, 2);
  EXPECT_THAT(steps(), all);
  EXPECT_THAT(Text("report.html"), HasSubstr(">step</text>"));
  // Goes on within the first epoch, whose first point is in the file alone, and within the second.
  for (const Position position : {Position{0, 2}, Position{1, 2}}) {
    const LoadedCheckpoint loaded = LoadCheckpoint(prefix, position, net_.CollectParams());
    Run({WriteReport(file, "t")}, 2, 0.1, loaded);
    EXPECT_THAT(steps(), all);
  }
}

TEST(Report, DrawsWhatIsThere) {
  using train::CurvePoint;
  EXPECT_THAT(train::ReportHtml({"t"}, {}), HasSubstr("No epoch has ended yet"));
  const std::vector<CurvePoint> points = {{.epoch = 1, .step = 5, .train_loss = 2, .train_score = 0.5},
                                          {.epoch = 2, .step = 10, .train_loss = NAN, .test_loss = 1.5}};
  const std::string html = train::ReportHtml({"t"}, points);
  EXPECT_THAT(html, HasSubstr("<svg"));
  EXPECT_THAT(html, ::testing::Not(HasSubstr("nan,")));
  const auto read = train::PointsOf(html).value();
  EXPECT_EQ(read[0], points[0]);
  EXPECT_TRUE(std::isnan(read[1].train_loss));
  EXPECT_EQ(read[1].test_loss, 1.5);
}

// What stands beside the ticks of each chart, from the bottom to the top.
std::vector<std::string> TicksOf(const std::string& html, const std::string& chart) {
  const size_t begin = html.find("<h2>" + chart + "</h2>"), end = html.find("</svg>", begin);
  std::vector<std::string> ticks;
  const std::string marker = "text-anchor=\"end\">";
  for (size_t at = html.find(marker, begin); at < end; at = html.find(marker, at + 1))
    ticks.push_back(html.substr(at + marker.size(), html.find('<', at + 1) - at - marker.size()));
  return ticks;
}

TEST(Report, TicksAreRoundAndBeginAtZeroWhereNothingIsNegative) {
  using train::CurvePoint;
  std::vector<CurvePoint> points;
  for (int64_t i = 0; i < 33; ++i) {
    points.push_back({.epoch = i + 1,
                      .step = 5 * i,
                      .train_loss = 0.0237 + static_cast<double>(i % 7) * 0.31,
                      .train_score = 0.873 + static_cast<double>(i) * 0.003,
                      .learning_rate = 0.05,
                      .samples_per_sec = 6873.4 + static_cast<double>(i)});
  }
  const std::string html = train::ReportHtml({"t", "accuracy", "texts"}, points);
  EXPECT_THAT(TicksOf(html, "Loss"), ElementsAre("0", "0.5", "1", "1.5", "2"));
  EXPECT_THAT(TicksOf(html, "Accuracy"), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1"));
  EXPECT_THAT(TicksOf(html, "Learning rate"), ElementsAre("0", "0.01", "0.02", "0.03", "0.04", "0.05"));
  EXPECT_THAT(TicksOf(html, "Texts per second"), ElementsAre("0", "2000", "4000", "6000", "8000"));
  EXPECT_THAT(html, ::testing::Not(HasSubstr("mages/s")));
  EXPECT_THAT(html, HasSubstr("text-anchor=\"middle\">5</text>"));
  EXPECT_THAT(html, HasSubstr("text-anchor=\"middle\">30</text>"));
  EXPECT_THAT(html, ::testing::Not(HasSubstr("text-anchor=\"middle\">1</text>")));

  // A loss may be negative.
  points = {{.epoch = 1, .train_loss = -3.2}, {.epoch = 2, .train_loss = 1.9}};
  EXPECT_THAT(TicksOf(train::ReportHtml({"t"}, points), "Loss"), ElementsAre("-4", "-2", "0", "2"));
  // All values alike, and 0.
  points = {{.epoch = 1, .train_loss = 0}, {.epoch = 2, .train_loss = 0}};
  EXPECT_THAT(TicksOf(train::ReportHtml({"t"}, points), "Loss"),
              ElementsAre("0", "0.25", "0.5", "0.75", "1"));
  points = {{.epoch = 1, .train_loss = -2}};
  EXPECT_THAT(TicksOf(train::ReportHtml({"t"}, points), "Loss"), ElementsAre("-2", "-1.5"));
  // Large numbers as people write them.
  points = {{.epoch = 1, .train_loss = 30'000, .samples_per_sec = 35'490.2},
            {.epoch = 2, .train_loss = 10'000, .samples_per_sec = 1}};
  EXPECT_THAT(TicksOf(train::ReportHtml({"t"}, points), "Loss"), ElementsAre("0", "10000", "20000", "30000"));
  EXPECT_THAT(train::ReportHtml({"t"}, points), HasSubstr(">35490<"));
  points = {{.epoch = 1, .train_loss = 1e-300}, {.epoch = 2, .train_loss = 1e300}};
  EXPECT_THAT(TicksOf(train::ReportHtml({"t"}, points), "Loss").front(), "0");
}

TEST(Report, SaysWhatIsNoNumber) {
  using train::CurvePoint;
  const double negative = std::copysign(NAN, -1);
  const std::vector<CurvePoint> points = {{.epoch = 1, .step = 1, .train_loss = 2, .test_loss = 3},
                                          {.epoch = 2, .step = 2, .train_loss = negative, .test_loss = NAN},
                                          {.epoch = 3, .step = 3, .train_loss = NAN, .test_loss = INFINITY},
                                          {.epoch = 4, .step = 4, .train_loss = 1}};
  const std::string html = train::ReportHtml({"t"}, points);
  EXPECT_THAT(html, HasSubstr(">NaN<title>train, epoch 2, step 2: NaN</title></text>"));
  EXPECT_THAT(html, ::testing::Not(HasSubstr("train, epoch 3")));  // the second in a row
  EXPECT_THAT(html, HasSubstr(">infinite<title>test, epoch 3, step 3: infinite</title></text>"));
  EXPECT_THAT(html, HasSubstr("<td>NaN</td>"));
  EXPECT_THAT(html, ::testing::Not(HasSubstr("nan")));
  const auto read = train::PointsOf(html).value();  // as whoever goes on reads it
  EXPECT_TRUE(std::isnan(read[1].train_loss));
  EXPECT_TRUE(read[1].test_loss && std::isnan(*read[1].test_loss));
  EXPECT_EQ(read[2].test_loss, INFINITY);
  EXPECT_FALSE(read[3].test_loss);
  EXPECT_EQ(train::ReportHtml({"t"}, read), html);
}

TEST(Report, ReadsNothingFromWhatItHasNotWritten) {
  const auto points = [](const std::string& json) {
    return train::PointsOf("<script type=\"application/json\" id=\"points\">" + json + "</script>");
  };
  EXPECT_FALSE(train::PointsOf(""));
  EXPECT_FALSE(train::PointsOf("<html></html>"));
  EXPECT_THAT(points("[]").value(), SizeIs(0));
  EXPECT_THAT(points(R"([{"epoch":1,"step":5},{"epoch":3,"step":9}])").value(), SizeIs(2));
  EXPECT_THAT(points(R"([{"epoch":2,"step":5,"within":true},{"epoch":2,"step":9}])").value(), SizeIs(2));
  for (const char* other :
       {"[{]", "[1]", R"({"a":{"epoch":1,"step":5}})", R"([{"epoch":1}])", R"([{"epoch":1.5,"step":5}])",
        R"([{"epoch":1e300,"step":5}])", R"([{"epoch":-1,"step":5}])",
        R"([{"epoch":1,"step":9223372036854775807}])", R"([{"epoch":1,"step":18446744073709551615}])",
        R"([{"epoch":2,"step":5},{"epoch":2,"step":6}])", R"([{"epoch":1,"step":5},{"epoch":2,"step":5}])",
        R"([{"epoch":2,"step":5,"within":true},{"epoch":1,"step":6}])",
        R"([{"epoch":1,"step":5,"within":2}])", R"([{"epoch":1,"step":5,"train_loss":"low"}])"})
    EXPECT_FALSE(points(other)) << other;
}

}  // namespace
}  // namespace sluice::testing

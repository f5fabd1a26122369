// A run in two halves is the run in one go, to the last bit.
#include "sluice/checkpoint.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/strings.h"
#include "sluice/error.h"
#include "sluice/fit.h"
#include "sluice/parameters_file.h"
#include "train/statistics_file.h"
#include "unit/expect_error.h"
#include "unit/train/points.h"
#include "unit/train/toy.h"

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 3;  // an epoch's: 22 samples in batches of 8

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "sluice-checkpoint-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    prefix_ = name + "/run";
  }
  void TearDown() override { fs::remove_all(fs::path(prefix_).parent_path()); }

  static nn::Dense Net(uint64_t seed) {
    nn::Dense net(int64_t{kClasses});
    net.CollectParams().Initialize(Cpus(2), nullptr, seed);
    return net;
  }
  static FitOptions Options(Position start, int64_t num_epochs) {
    FitOptions options;
    options.contexts = Cpus(2);
    options.batch_size = 8;
    options.start = start;
    options.num_epochs = num_epochs;
    options.seed = 7;
    options.disp_batches = 0;
    return options;
  }
  // Falls after the first epoch and after the third.
  static OptimizerConfig Optimizer(OptimizerKind kind, double momentum) {
    OptimizerConfig config{.kind = kind, .learning_rate = 0.1, .momentum = momentum};
    config.schedule.kind = LrScheduleKind::kMultiFactor;
    config.schedule.factor = 0.25;
    config.schedule.steps = {kSteps, 3 * kSteps};
    return config;
  }
  static std::vector<std::vector<float>> Values(nn::Layer& net) {
    std::vector<std::vector<float>> values;
    for (const auto& parameter : net.CollectParams())
      values.push_back(parameter->list_data().front().ToVector());
    return values;
  }
  // Trains from the first epoch on and saves after each, in place of what a run before has saved.
  std::vector<std::vector<float>> Train(const std::string& store, const OptimizerConfig& config,
                                        int64_t epochs) {
    nn::Dense net = Net(4);
    FitOptions options = Options({}, epochs);
    for (const Position& old : ListCheckpoints(prefix_)) RemoveCheckpoint(prefix_, old);
    options.callbacks = {SaveEvery(prefix_, {.epochs = 1, .steps = 2, .keep = 100})};
    Fit(net, data_, nullptr, config, StoreOf(store), options);
    return Values(net);
  }
  std::string WhyRefused(const Position& next) {
    nn::Dense net = Net(9);
    try {
      LoadCheckpoint(prefix_, next, net.CollectParams());
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }

  const std::shared_ptr<const Dataset> data_ = std::make_shared<RandomPoints>(22, 1);
  std::string prefix_;
};

TEST_F(CheckpointTest, TrainingOnIsTrainingInOneGo) {
  const std::pair<OptimizerKind, double> optimizers[] = {{OptimizerKind::kSgd, 0},
                                                         {OptimizerKind::kSgd, 0.9},
                                                         {OptimizerKind::kNag, 0.9},
                                                         {OptimizerKind::kAdam, 0}};
  for (const char* store : {"local", "device"}) {
    for (const auto& [kind, momentum] : optimizers) {
      SCOPED_TRACE(StrCat(store, " ", Name(kind), " ", momentum));
      const OptimizerConfig config = Optimizer(kind, momentum);
      const auto whole = Train(store, config, 4);
      nn::Dense net = Net(9);  // other weights, until the checkpoint is loaded
      const LoadedCheckpoint loaded = LoadCheckpoint(prefix_, {2, 0}, net.CollectParams());
      EXPECT_TRUE(loaded.has_position);
      EXPECT_EQ(loaded.next, (Position{2, 0}));
      EXPECT_EQ(loaded.step, 2 * kSteps);
      EXPECT_EQ(loaded.seed, 7u);
      EXPECT_TRUE(loaded.shuffle);
      EXPECT_EQ(loaded.updates, 2 * kSteps);
      FitOptions options = Options({2, 0}, 4);
      options.start_step = loaded.step;
      options.optimizer_states = loaded.states;
      std::vector<std::pair<int64_t, int64_t>> ends;
      options.callbacks = {
          AfterEpoch([&](const FitStatus& status) { ends.emplace_back(status.next.epoch, status.step); })};
      EXPECT_EQ(Fit(net, data_, nullptr, config, StoreOf(store), options).epochs, 2);
      EXPECT_EQ(Values(net), whole);
      EXPECT_EQ(ends, (std::vector<std::pair<int64_t, int64_t>>{{3, 3 * kSteps}, {4, 4 * kSteps}}));
    }
  }
}

// Whoever updates keeps the same states, of what no step updates too.
TEST_F(CheckpointTest, ARunGoesOnWithClippingAndWithout) {
  const OptimizerConfig config = Optimizer(OptimizerKind::kAdam, 0);
  const auto make = [] {
    nn::Sequential net;
    net.Add(nn::Dense(5)).Add(nn::BatchNorm()).Add(nn::Dense(int64_t{kClasses}));
    net.CollectParams().Initialize(Cpus(2), nullptr, 4);
    return net;
  };
  const auto fit = [&](double max_norm, int64_t epochs, const LoadedCheckpoint& from, bool saves) {
    nn::Sequential net = make();
    FitOptions options = Options(from.next, epochs);
    if (from.next != Position()) {
      options.optimizer_states = LoadCheckpoint(prefix_, from.next, net.CollectParams()).states;
      options.statistics = from.statistics;
      options.start_step = from.step;
    }
    options.clip_global_norm = max_norm;
    if (saves) options.callbacks = {SaveEvery(prefix_, {.epochs = 1})};
    Fit(net, data_, nullptr, config, StoreOf("local"), options);
    return Values(net);
  };
  for (const double first : {0.0, 1e30}) {  // a bound that is never reached
    const auto whole = fit(first, 3, {}, true);
    nn::Sequential net = make();
    const LoadedCheckpoint loaded = LoadCheckpoint(prefix_, {1, 0}, net.CollectParams());
    EXPECT_EQ(fit(1e30 - first, 3, loaded, false), whole);
    for (const Position& position : ListCheckpoints(prefix_)) RemoveCheckpoint(prefix_, position);
  }
}

TEST_F(CheckpointTest, ARunGoesOnFromTheMiddleOfAnEpoch) {
  const OptimizerConfig config = Optimizer(OptimizerKind::kSgd, 0.9);
  for (const char* store : {"local", "device"}) {
    const auto whole = Train(store, config, 4);
    EXPECT_THAT(ListCheckpoints(prefix_),
                ElementsAre(Position{0, 2}, Position{1, 0}, Position{1, 1}, Position{2, 0}, Position{2, 2},
                            Position{3, 0}, Position{3, 1}, Position{4, 0}));
    EXPECT_EQ(CheckpointFile(prefix_, {2, 2}), prefix_ + "-0002-000002.safetensors");
    nn::Dense net = Net(9);
    const LoadedCheckpoint loaded = LoadCheckpoint(prefix_, {2, 2}, net.CollectParams());
    EXPECT_EQ(loaded.step, 2 * kSteps + 2);
    FitOptions options = Options(loaded.next, 4);
    options.start_step = loaded.step;
    options.optimizer_states = loaded.states;
    const FitReport report = Fit(net, data_, nullptr, config, StoreOf(store), options);
    EXPECT_EQ(Values(net), whole);
    EXPECT_EQ(report.steps, kSteps - 2 + kSteps);
    EXPECT_EQ(report.epochs, 2);
  }
}

TEST_F(CheckpointTest, StepsOfTheWholeRunAreCounted) {
  const OptimizerConfig config = Optimizer(OptimizerKind::kSgd, 0.9);
  const auto run = [&](nn::Dense& net, FitOptions options) {
    options.num_steps = 8;
    options.callbacks = {SaveEvery(prefix_, {.steps = 2})};
    return Fit(net, data_, nullptr, config, StoreOf("local"), options);
  };
  nn::Dense whole = Net(4), net = Net(9);
  EXPECT_EQ(run(whole, Options({}, 0)).steps, 8);
  EXPECT_THAT(ListCheckpoints(prefix_), ElementsAre(Position{2, 0}, Position{2, 2}));  // the newest two
  const LoadedCheckpoint loaded = LoadCheckpoint(prefix_, {2, 0}, net.CollectParams());
  FitOptions options = Options(loaded.next, 0);
  options.start_step = loaded.step;
  options.optimizer_states = loaded.states;
  RemoveCheckpoint(prefix_, {2, 2});  // which lies ahead
  EXPECT_EQ(run(net, options).steps, 2);
  EXPECT_EQ(Values(net), Values(whole));
}

TEST_F(CheckpointTest, NothingIsLeftOfARunThatIsOver) {
  const auto whole = Train("local", Optimizer(OptimizerKind::kSgd, 0), 2);
  nn::Dense net = Net(9);
  FitOptions options = Options({2, 0}, 2);
  options.optimizer_states = LoadCheckpoint(prefix_, {2, 0}, net.CollectParams()).states;
  const FitReport report =
      Fit(net, data_, data_, Optimizer(OptimizerKind::kSgd, 0), StoreOf("local"), options);
  EXPECT_EQ(report.steps, 0);
  EXPECT_EQ(Values(net), whole);
  EXPECT_EQ(report.test_score, Evaluate(net, *data_, Cpus(2)).score);
}

TEST_F(CheckpointTest, ParametersAloneAreAStart) {
  nn::Dense net = Net(4), other = Net(9);
  NDArray sample = NDArray(Shape{1, int64_t{kFeatures}}, cpu(0));
  net(sample);
  SaveParameters(CheckpointFile(prefix_, {12, 0}), net.CollectParams());
  EXPECT_EQ(CheckpointFile(prefix_, {12, 0}), prefix_ + "-0012.safetensors");
  const LoadedCheckpoint loaded = LoadCheckpoint(prefix_, {12, 0}, other.CollectParams());
  EXPECT_EQ(Values(other), Values(net));
  EXPECT_FALSE(loaded.has_position);
  EXPECT_EQ(loaded.next, (Position{12, 0}));
  EXPECT_EQ(loaded.updates, 0);
  EXPECT_EQ(loaded.states, "");
}

TEST_F(CheckpointTest, OneThatIsNotThereSaysWhichThereAre) {
  nn::Dense net = Net(4);
  net(NDArray(Shape{1, int64_t{kFeatures}}, cpu(0)));
  const auto save = [&](const Position& position) {
    SaveParameters(CheckpointFile(prefix_, position), net.CollectParams());
  };
  const std::string missing = StrCat("there is no checkpoint '", prefix_, "-0009.safetensors'; ");
  const auto why = [&] { return WhyRefused({9, 0}); };
  EXPECT_EQ(why(), StrCat(missing, "there is none under '", prefix_, "'"));
  save({1, 7});
  EXPECT_EQ(why(), StrCat(missing, "there is none after a whole epoch; the newest is '", prefix_,
                          "-0001-000007.safetensors'"));
  for (const int64_t epoch : {2, 3, 4, 7, 11, 12}) save({epoch, 0});
  EXPECT_EQ(why(), missing + "there are checkpoints after epoch 2 to 4, 7, 11, 12");
  save({12, 5});
  EXPECT_EQ(why(), StrCat(missing, "there are checkpoints after epoch 2 to 4, 7, 11, 12; the newest is '",
                          prefix_, "-0012-000005.safetensors'"));
  for (int64_t epoch = 14; epoch < 60; epoch += 2) save({epoch, 0});
  EXPECT_EQ(why(), missing + "there are checkpoints after epoch ..., 40, 42, 44, 46, 48, 50, 52, 54, 56, 58");
  try {
    ReadCheckpoint(prefix_ + "/none", {1, 0});
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_EQ(std::string(error.what()),
              StrCat("there is no checkpoint '", prefix_, "/none-0001.safetensors'; ", "there is no folder '",
                     prefix_, "'"));
  }
}

TEST_F(CheckpointTest, APrefixMayNameItsFolderInAnyWay) {
  Train("local", Optimizer(OptimizerKind::kSgd, 0), 2);
  const fs::path folder = fs::path(prefix_).parent_path();
  for (const std::string& prefix : {folder.string() + "//run", folder.string() + "/./run"})
    EXPECT_EQ(ListCheckpoints(prefix), ListCheckpoints(prefix_)) << prefix;
  std::ofstream(prefix_ + "-1.safetensors") << "another name";
  EXPECT_EQ(ListCheckpoints(prefix_).size(), 4u);
}

TEST_F(CheckpointTest, APrefixMayBeAFolder) {
  const std::string prefix = fs::path(prefix_).parent_path().string() + "/";
  nn::ParameterDict parameters;
  parameters.Add(MakeParameter("w", {1, 2}, Cpus(1)));
  Trainer trainer(parameters, {}, nullptr);
  for (const int64_t epoch : {1, 2, 2})
    SaveCheckpoint(prefix, {.next = {epoch, 0}, .batching = {}}, parameters, trainer);
  EXPECT_EQ(ListCheckpoints(prefix), (std::vector<Position>{{1, 0}, {2, 0}}));
}

TEST_F(CheckpointTest, NothingStaysOfASaveThatFailedOrWasKilled) {
  class Unwritable final : public Callback {
    std::string name() const override { return "caf\xe9"; }
    std::string Memory() const override { return "Latin-1"; }
  };
  nn::Dense net = Net(4);
  FitOptions options = Options({}, 1);
  options.callbacks = {std::make_shared<Unwritable>(), SaveEvery(prefix_, {.epochs = 1})};
  EXPECT_THROW(Fit(net, data_, nullptr, {}, StoreOf("local"), options), Error);
  EXPECT_FALSE(fs::exists(CheckpointStatesFile(prefix_, {1, 0})));
  std::ofstream(CheckpointStatesFile(prefix_, {7, 1})) << "states of a save that was killed";
  std::ofstream(prefix_ + "-best.states.safetensors") << "no checkpoint's";
  Train("local", Optimizer(OptimizerKind::kSgd, 0), 1);
  EXPECT_FALSE(fs::exists(CheckpointStatesFile(prefix_, {7, 1})));
  EXPECT_TRUE(fs::exists(prefix_ + "-best.states.safetensors"));
  EXPECT_TRUE(fs::exists(CheckpointStatesFile(prefix_, {1, 0})));
}

// Each context normalises with what it saw itself.
class CheckpointOfStatistics : public CheckpointTest {
 protected:
  struct Model {
    explicit Model(int contexts) {
      net.Add(nn::Dense(int64_t{kClasses}));
      net.Add(nn::BatchNorm());
      net.CollectParams().Initialize(Cpus(contexts), nullptr, 4);
    }
    nn::Sequential net;
  };
  static FitOptions OptionsOn(int contexts, const LoadedCheckpoint& start, int64_t num_epochs) {
    FitOptions options = Options(start.next, num_epochs);
    options.contexts = Cpus(contexts);
    options.start_step = start.step;
    options.optimizer_states = start.states;
    options.statistics = start.statistics;
    return options;
  }
  static std::vector<std::vector<float>> OnAll(nn::Layer& net) {
    std::vector<std::vector<float>> values;
    for (const auto& parameter : net.CollectParams()) {
      for (const NDArray& copy : parameter->list_data()) values.push_back(copy.ToVector());
    }
    return values;
  }
  std::vector<std::vector<float>> TrainOn(int contexts, int64_t epochs) {
    Model model(contexts);
    FitOptions options = OptionsOn(contexts, {}, epochs);
    options.callbacks = {SaveEvery(prefix_, {.epochs = 1, .steps = 2, .keep = 100})};
    Fit(model.net, data_, nullptr, config_, StoreOf("local"), options);
    return OnAll(model.net);
  }
  const OptimizerConfig config_ = Optimizer(OptimizerKind::kSgd, 0.9);
};

TEST_F(CheckpointOfStatistics, EveryContextGoesOnWithItsOwn) {
  const auto whole = TrainOn(2, 3);
  for (const Position& from : {Position{1, 0}, Position{1, 1}}) {
    Model model(2);
    const LoadedCheckpoint loaded = LoadCheckpoint(prefix_, from, model.net.CollectParams());
    EXPECT_EQ(loaded.statistics, CheckpointStatisticsFile(prefix_, from));
    Fit(model.net, data_, nullptr, config_, StoreOf("local"), OptionsOn(2, loaded, 3));
    EXPECT_EQ(OnAll(model.net), whole);
  }
}

TEST_F(CheckpointOfStatistics, AnotherNumberOfContextsBeginsWithTheirMean) {
  TrainOn(2, 1);
  Model mean(1), three(3);
  LoadCheckpoint(prefix_, {1, 0}, mean.net.CollectParams());
  const LoadedCheckpoint loaded = LoadCheckpoint(prefix_, {1, 0}, three.net.CollectParams());
  Fit(three.net, data_, nullptr, config_, StoreOf("local"), OptionsOn(3, loaded, 1));  // no step is left
  for (const auto& parameter : three.net.CollectParams()) {
    for (const NDArray& copy : parameter->list_data())
      EXPECT_EQ(copy.ToVector(), mean.net.CollectParams()[parameter->name()].list_data().front().ToVector());
  }
}

TEST_F(CheckpointOfStatistics, AreSavedWhereContextsDifferAndGoWithTheirCheckpoint) {
  std::ofstream(CheckpointStatisticsFile(prefix_, {1, 0})) << "another run's";
  std::ofstream(CheckpointStatisticsFile(prefix_, {8, 0})) << "of a save that was killed";
  TrainOn(1, 1);
  for (const int64_t epoch : {1, 8}) EXPECT_FALSE(fs::exists(CheckpointStatisticsFile(prefix_, {epoch, 0})));
  for (const Position& position : ListCheckpoints(prefix_)) RemoveCheckpoint(prefix_, position);
  TrainOn(2, 1);
  EXPECT_TRUE(fs::exists(CheckpointStatisticsFile(prefix_, {1, 0})));
  RemoveCheckpoint(prefix_, {1, 0});
  EXPECT_FALSE(fs::exists(CheckpointStatisticsFile(prefix_, {1, 0})));
}

TEST_F(CheckpointOfStatistics, OfAnotherModelAreRefusedByName) {
  TrainOn(2, 1);
  nn::ParameterDict other;
  for (const char* name : {"bn.mean", "bn.var"})
    other.Add(MakeParameter(name, {1, 2}, Cpus(2), {.differentiable = false}));
  const std::string path = CheckpointStatisticsFile(prefix_, {1, 0});
  EXPECT_THAT(ErrorOf(ErrorCode::kDataLoss, [&] { train::LoadStatistics(path, other); }),
              HasSubstr(path + ": entry bn.mean/0 is missing; expected float32 [2]"));
}

TEST_F(CheckpointTest, StatesOfAnotherOptimizerAreRefusedWithBothNames) {
  Train("local", Optimizer(OptimizerKind::kAdam, 0), 1);
  nn::Dense net = Net(9);
  FitOptions options = Options({1, 0}, 2);
  options.optimizer_states = LoadCheckpoint(prefix_, {1, 0}, net.CollectParams()).states;
  try {
    Fit(net, data_, nullptr, Optimizer(OptimizerKind::kSgd, 0), StoreOf("local"), options);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(CheckpointStatesFile(prefix_, {1, 0})));
    EXPECT_THAT(error.what(), HasSubstr("'adam', the store has 'sgd'"));
  }
}

TEST_F(CheckpointTest, WhatNoCheckpointSaysIsRefused) {
  EXPECT_THAT(WhyRefused({1, 0}), HasSubstr("run-0001.safetensors"));
  nn::Dense net = Net(4);
  net(NDArray(Shape{1, int64_t{kFeatures}}, cpu(0)));
  const FileMetadata sound = {{"epoch", "1"}, {"step", "3"}, {"seed", "7"}, {"shuffle", "true"}};
  const auto why = [&](const std::string& entry, const std::string& text) {
    FileMetadata metadata = sound;
    metadata[entry] = text;
    SaveParameters(CheckpointFile(prefix_, {1, 0}), net.CollectParams(), metadata);
    return WhyRefused({1, 0});
  };
  EXPECT_EQ(why("epoch", "1"), "accepted");
  EXPECT_THAT(why("epoch", "2"), HasSubstr("after epoch 2, not epoch 1"));
  EXPECT_THAT(why("epoch", "-1"), HasSubstr("'epoch' is '-1'"));
  EXPECT_THAT(why("step", ""), HasSubstr("'step' is ''"));
  EXPECT_THAT(why("seed", "seven"), HasSubstr("'seed' is 'seven'"));
  EXPECT_THAT(why("shuffle", "maybe"), HasSubstr("'shuffle' is 'maybe'"));
  EXPECT_THAT(why("seed", "\x1b[2J"), HasSubstr("'seed' is '\\x1b[2J'"));
  EXPECT_THAT(why("step", "999999999999"), HasSubstr("'step' is '999999999999', which cannot be"));
  EXPECT_THAT(why("num_samples", "0"), HasSubstr("'num_samples' is '0'"));
  EXPECT_THAT(why("num_samples", "22"), HasSubstr("'global_batch' is ''"));
}

TEST_F(CheckpointTest, AStepThatTheEpochDoesNotHaveIsRefused) {
  nn::Dense net = Net(4);
  net(NDArray(Shape{1, int64_t{kFeatures}}, cpu(0)));
  const auto why = [&](const FileMetadata& changed) {
    FileMetadata metadata = {{"epoch", "0"},        {"epoch_step", "2"},    {"step", "2"},
                             {"seed", "7"},         {"shuffle", "true"},    {"num_samples", "22"},
                             {"global_batch", "8"}, {"last_batch", "keep"}, {"class_weights", "1,0.1"}};
    for (const auto& [name, text] : changed) metadata[name] = text;
    SaveParameters(CheckpointFile(prefix_, {0, 2}), net.CollectParams(), metadata);
    return WhyRefused({0, 2});
  };
  EXPECT_EQ(why({}), "accepted");
  EXPECT_THAT(why({{"step", "3"}}),
              HasSubstr("'step' is '3', which cannot be the steps done at epoch 0, step 2"));
  EXPECT_THAT(why({{"last_batch", "discard"}}),
              HasSubstr("'epoch_step' is '2', where an epoch of 22 samples"));
  EXPECT_THAT(why({{"last_batch", "drop"}}), HasSubstr("'last_batch' is 'drop'"));
  EXPECT_THAT(why({{"class_weights", "1,-1"}}), HasSubstr("'class_weights' is '1,-1'"));
}

TEST_F(CheckpointTest, WhatAStepWithinAnEpochDependsOnIsKept) {
  nn::Dense net = Net(4), other = Net(9);
  FitOptions options = Options({}, 1);
  options.last_batch = LastBatch::kRollover;
  options.class_weights = std::vector<double>(kClasses, 0.1);
  options.class_weights[0] = 1.0 / 3;
  options.callbacks = {SaveEvery(prefix_, {.steps = 1})};
  Fit(net, data_, nullptr, {}, StoreOf("local"), options);
  const Batching found = LoadCheckpoint(prefix_, {0, 1}, other.CollectParams()).batching;
  const Batching same{22, 8, LastBatch::kRollover, options.class_weights};
  EXPECT_EQ(found, same);
  EXPECT_EQ(DifferenceOf(found, same), "");
  EXPECT_EQ(DifferenceOf({22, 8}, {20, 4, LastBatch::kDiscard, {1, 0.5}}),
            "the number of samples was 22 and is 20, the batch of all workers was 8 and is 4, "
            "the last batch was keep and is discard, class weights were none and are 1,0.5");
}

}  // namespace
}  // namespace sluice::testing

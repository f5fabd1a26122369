// Optimiser states and the position in the schedule are saved and loaded. Training that continues from a file
// must give the same weights as training without an interruption, for any types of the store that wrote the
// file and of the one that reads it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <numbers>

#include "base/strings.h"
#include "contract/job.h"
#include "golden/optimizer/formulas.h"

namespace sluice::testing {
namespace {

const Key kKey = std::string("weight");
const Shape kShape = {300};
constexpr int kHalf = 3;  // number of updates before the states are saved, and of those after
constexpr double kRate = 0.5, kMomentum = 0.75;
const std::vector<std::string> kTypes = StoreTypes();

double Gradient(int t) {
  return 1 + std::cos(t);
}

struct Schedule {
  const char* name;
  LrSchedule schedule;
  double (*rate)(int t);
};
std::vector<Schedule> Schedules() {
  LrSchedule factor, warmup, cosine;
  factor.kind = LrScheduleKind::kFactor;
  factor.factor = 0.5;
  factor.step = 2;
  warmup = factor;
  warmup.warmup_steps = 5;
  warmup.warmup_begin_lr = 0.1;
  cosine.kind = LrScheduleKind::kCosine;
  cosine.max_update = 8;
  cosine.final_lr = 0.05;
  return {{"factor", factor, [](int t) { return kRate * std::pow(0.5, (t - 1) / 2); }},
          {"warm-up", warmup,
           [](int t) { return t < 5 ? 0.1 + (kRate - 0.1) * t / 5 : kRate * std::pow(0.5, (t - 1) / 2); }},
          {"cosine", cosine,
           [](int t) { return 0.05 + (kRate - 0.05) * (1 + std::cos(std::numbers::pi * t / 8)) / 2; }}};
}

std::vector<OptimizerConfig> Optimizers() {
  const auto config = [](OptimizerKind kind, double momentum) {
    return OptimizerConfig{.kind = kind, .learning_rate = kRate, .momentum = momentum};
  };
  std::vector<OptimizerConfig> configs;
  for (const std::string_view name : OptimizerNames()) {
    const OptimizerKind kind = OptimizerKindOf(name).value();
    configs.push_back(config(kind, 0));
    if (ReadsMomentum(kind)) configs.push_back(config(kind, kMomentum));
  }
  configs.push_back(config(OptimizerKind::kRmsProp, kMomentum));
  configs.back().centered = true;
  return configs;
}

double ReferenceAfter(const OptimizerConfig& config, const Schedule& schedule, int updates) {
  std::vector<reference::Element> array(static_cast<size_t>(kShape.size()));
  for (int t = 1; t <= updates; ++t)
    reference::UpdateArray(config, {.rate = schedule.rate(t), .t = t}, std::vector(array.size(), Gradient(t)),
                           array);
  return array.front().weight;
}

class States : public ::testing::TestWithParam<std::string> {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  // Runs updates first + 1 to last on a new store, from the weights `start` and, unless `load` is empty, the
  // states of that file. Returns the weights; saves the states unless `save` is empty.
  static std::vector<float> Train(const std::string& type, const OptimizerConfig& config, int first, int last,
                                  const std::vector<float>& start, const std::string& load,
                                  const std::string& save) {
    std::vector<float> end;
    // With one worker every type of store makes the same updates. The key is split over the servers, or only
    // into parts if the optimiser needs norms.
    const int64_t bound = Optimizer::Create(config)->needs_norms() ? 1000 : 100;
    Job({.type = type, .workers = 1, .servers = 2, .bigarray_bound = bound, .part_bytes = 512})
        .Run([&](KVStore& kv) {
          NDArray weight = NDArray::From(std::span(start), kShape, DeviceOf(kv));
          kv.Init(kKey, weight);
          kv.SetOptimizer(config);
          if (!load.empty()) kv.LoadOptimizerStates(load);
          for (int t = first + 1; t <= last; ++t) kv.Push(kKey, Filled(kv, kShape, Gradient(t)));
          if (!save.empty()) kv.SaveOptimizerStates(save);
          kv.Pull(kKey, &weight);
          end = weight.ToVector();
        });
    return end;
  }
  std::vector<float> TrainHalf(const std::string& type, const OptimizerConfig& config) const {
    return Train(type, config, 0, kHalf, zeros_, "", path_);
  }
  std::vector<float> TrainOn(const std::string& type, const OptimizerConfig& config,
                             const std::vector<float>& half) const {
    return Train(type, config, kHalf, 2 * kHalf, half, path_, "");
  }
  std::vector<float> TrainInOneGo(const std::string& type, const OptimizerConfig& config) const {
    return Train(type, config, 0, 2 * kHalf, zeros_, "", "");
  }

  const std::vector<float> zeros_ = std::vector<float>(static_cast<size_t>(kShape.size()));
  const std::string path_ =
      (std::filesystem::temp_directory_path() / StrCat("states-of-", getpid(), ".safetensors")).string();
};

TEST_P(States, TrainingOnFromAFileIsTrainingOn) {
  const auto optimizers = Optimizers();
  const auto schedules = Schedules();
  for (size_t i = 0; i < optimizers.size(); ++i) {
    OptimizerConfig config = optimizers[i];
    const Schedule& schedule = schedules[i % schedules.size()];
    SCOPED_TRACE(
        StrCat(Name(config.kind), " with momentum ", Resolved(config).momentum, ", ", schedule.name));
    config.schedule = schedule.schedule;
    const auto resumed = TrainOn(GetParam(), config, TrainHalf(GetParam(), config));
    EXPECT_EQ(resumed, TrainInOneGo(GetParam(), config));
    const double expected = ReferenceAfter(config, schedule, 2 * kHalf);
    for (const float w : resumed) ASSERT_NEAR(w, expected, 2e-6 * std::max(1.0, std::abs(expected)));
  }
}

TEST_P(States, AFileIsReadByAStoreOfAnyType) {
  for (const auto kind : {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kLamb}) {
    const OptimizerConfig config{
        .kind = kind, .learning_rate = kRate, .schedule = Schedules().front().schedule};
    const auto whole = TrainInOneGo("local", config);
    const auto half = TrainHalf(GetParam(), config);
    for (const std::string& reader : kTypes)
      EXPECT_EQ(TrainOn(reader, config, half), whole) << Name(kind) << " " << reader;
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, States, ::testing::ValuesIn(kTypes),
                         [](const auto& info) { return "read_by_" + info.param; });

}  // namespace
}  // namespace sluice::testing

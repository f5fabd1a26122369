// Optimiser states and the place in the schedule outlive a store: training on from a file is training on,
// whatever the types of the store that wrote and of the one that reads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <numbers>

#include "base/strings.h"
#include "contract/job.h"

namespace sluice::testing {
namespace {

const Key kKey = std::string("weight");
const Shape kShape = {300};
constexpr int kHalf = 3;  // updates before the states are saved, and as many after
constexpr double kRate = 0.5, kMomentum = 0.75;
const std::string kTypes[] = {"local",      "device",           "dist_sync", "dist_device_sync",
                              "dist_async", "dist_device_async"};

double Gradient(int t) {
  return 1 + std::cos(t);
}

// The same in float64, written down once more: an optimiser of one number, a schedule of t.
struct ReferenceOptimizer {
  OptimizerKind kind;
  double momentum = 0;
  double first = 0, second = 0;

  double Step(double w, double g, double lr, int t) {
    switch (kind) {
      case OptimizerKind::kSgd:
        return w + (first = momentum * first - lr * g);
      case OptimizerKind::kNag:
        first = momentum * first - lr * g;
        return w + momentum * first - lr * g;
      case OptimizerKind::kAdam:
        first = 0.9 * first + 0.1 * g;
        second = 0.999 * second + 0.001 * g * g;
        return w -
               lr * first / (1 - std::pow(0.9, t)) / (std::sqrt(second / (1 - std::pow(0.999, t))) + 1e-8);
      case OptimizerKind::kAccumulate:
        return w + g;
    }
    return 0;
  }
};

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

const std::pair<OptimizerKind, double> kOptimizers[] = {{OptimizerKind::kSgd, 0},
                                                        {OptimizerKind::kSgd, kMomentum},
                                                        {OptimizerKind::kNag, kMomentum},
                                                        {OptimizerKind::kAdam, 0},
                                                        {OptimizerKind::kAccumulate, 0}};

OptimizerConfig ConfigOf(OptimizerKind kind, double momentum, const LrSchedule& schedule) {
  return {.kind = kind, .learning_rate = kRate, .momentum = momentum, .schedule = schedule};
}
double ReferenceAfter(OptimizerKind kind, double momentum, const Schedule& schedule, int updates) {
  ReferenceOptimizer optimizer{kind, momentum};
  double w = 0;
  for (int t = 1; t <= updates; ++t) w = optimizer.Step(w, Gradient(t), schedule.rate(t), t);
  return w;
}

class States : public ::testing::TestWithParam<std::string> {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  // Updates first + 1 to last on a new store, from `start` and, where a file is named, its states.
  static std::vector<float> Train(const std::string& type, const OptimizerConfig& config, int first, int last,
                                  const std::vector<float>& start, const std::string& load,
                                  const std::string& save) {
    std::vector<float> end;
    // One worker, whose key is spread over the servers: every type makes the same updates.
    Job({.type = type, .workers = 1, .servers = 2, .bigarray_bound = 100}).Run([&](KVStore& kv) {
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
  for (const auto& [kind, momentum] : kOptimizers) {
    for (const Schedule& schedule : Schedules()) {
      SCOPED_TRACE(StrCat(Name(kind), " with momentum ", momentum, ", ", schedule.name));
      const OptimizerConfig config = ConfigOf(kind, momentum, schedule.schedule);
      const auto resumed = TrainOn(GetParam(), config, TrainHalf(GetParam(), config));
      EXPECT_EQ(resumed, TrainInOneGo(GetParam(), config));
      for (const float w : resumed) ASSERT_NEAR(w, ReferenceAfter(kind, momentum, schedule, 2 * kHalf), 2e-6);
    }
  }
}

TEST_P(States, AFileIsReadByAStoreOfAnyType) {
  const LrSchedule schedule = Schedules().front().schedule;
  for (const auto& [kind, momentum] : {kOptimizers[0], kOptimizers[3]}) {
    const OptimizerConfig config = ConfigOf(kind, momentum, schedule);
    const auto whole = TrainInOneGo("local", config);
    const auto half = TrainHalf(GetParam(), config);
    for (const std::string& reader : kTypes)
      EXPECT_EQ(TrainOn(reader, config, half), whole) << Name(kind) << " " << reader;
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, States, ::testing::ValuesIn(kTypes),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sluice::testing

// Trajectories that PyTorch ran where its definition of an optimiser is ours, and the published algorithms in
// Python where it has none (make_reference.py).
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "sluice/optimizer.h"

namespace sluice {
namespace {

struct Case {
  std::string name;
  OptimizerConfig config;
  int64_t updates_per_step = 1;
  std::map<int64_t, std::vector<double>> after;  // weights by number of updates
};

struct Reference {
  std::vector<double> weight;
  std::vector<std::vector<double>> gradients;
  std::vector<Case> cases;
};

std::vector<double> Numbers(std::istream& in) {
  std::vector<double> numbers;
  for (double number; in >> number;) numbers.push_back(number);
  return numbers;
}

OptimizerConfig ReadConfig(std::istream& in, int64_t* updates_per_step) {
  const std::map<std::string, double OptimizerConfig::*> fields = {
      {"learning_rate", &OptimizerConfig::learning_rate},
      {"momentum", &OptimizerConfig::momentum},
      {"wd", &OptimizerConfig::wd},
      {"clip_gradient", &OptimizerConfig::clip_gradient},
      {"beta1", &OptimizerConfig::beta1},
      {"beta2", &OptimizerConfig::beta2},
      {"epsilon", &OptimizerConfig::epsilon},
      {"rho", &OptimizerConfig::rho},
      {"lambda1", &OptimizerConfig::lambda1},
      {"beta", &OptimizerConfig::beta},
      {"lower_bound", &OptimizerConfig::lower_bound},
      {"upper_bound", &OptimizerConfig::upper_bound},
      {"wd_lh", &OptimizerConfig::wd_lh}};
  OptimizerConfig config{.momentum = 0, .epsilon = 1e-8};  // what make_reference.py takes
  std::string word;
  in >> word;
  config.kind = OptimizerKindOf(word).value();
  while (in >> word) {
    const size_t equals = word.find('=');
    const double value = std::stod(word.substr(equals + 1));
    if (word.starts_with("centered=")) {
      config.centered = value != 0;
    } else if (word.starts_with("updates_per_step=")) {
      *updates_per_step = static_cast<int64_t>(value);
    } else {
      config.*fields.at(word.substr(0, equals)) = value;
    }
  }
  return config;
}

Reference ReadReference() {
  std::ifstream file(GOLDEN_FOLDER "/reference.txt");
  Reference reference;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "weight") {
      reference.weight = Numbers(line);
    } else if (word == "gradient") {
      reference.gradients.push_back(Numbers(line));
    } else if (word == "case") {
      std::string name;
      line >> name;
      Case& one = reference.cases.emplace_back();
      one.name = name;
      one.config = ReadConfig(line, &one.updates_per_step);
    } else if (word == "after") {
      int64_t updates = 0;
      line >> updates;
      reference.cases.back().after[updates] = Numbers(line);
    }
  }
  return reference;
}

template <typename T>
void Follow(const Reference& reference, const Case& one, double tolerance) {
  const auto optimizer = Optimizer::Create(one.config);
  std::vector<T> weight(reference.weight.begin(), reference.weight.end());
  std::vector<std::vector<T>> slots(optimizer->num_slots(), std::vector<T>(weight.size()));
  std::vector<T*> pointers;
  for (auto& slot : slots) pointers.push_back(slot.data());
  int64_t updates = 0;
  for (const auto& values : reference.gradients) {
    const std::vector<T> gradient(values.begin(), values.end());
    Optimizer::Step step{.num_update = ++updates, .updates_per_step = one.updates_per_step};
    optimizer->PrepareUpdate<T>(step).Measure(weight.data(), gradient.data(), pointers.data(), weight.size(),
                                              &step.norms);
    optimizer->PrepareUpdate<T>(step)(weight.data(), weight.data(), gradient.data(), pointers.data(),
                                      weight.size());
    const auto recorded = one.after.find(updates);
    if (recorded == one.after.end()) continue;
    for (size_t i = 0; i < weight.size(); ++i) {
      const double expected = recorded->second.at(i);
      // Relative, or to the size of what an element near zero was summed from.
      ASSERT_NEAR(weight[i], expected, tolerance * std::max(1.0, std::abs(expected)))
          << one.name << ", element " << i << " after " << updates << " updates";
    }
  }
}

TEST(ReferenceTrajectory, IsFollowedInBothPrecisions) {
  const Reference reference = ReadReference();
  ASSERT_EQ(reference.gradients.size(), 100u);
  ASSERT_GE(reference.cases.size(), 28u);
  std::set<std::string_view> kinds = {"accumulate"};  // a sum, which needs no reference
  for (const Case& one : reference.cases) kinds.insert(Name(one.config.kind));
  ASSERT_EQ(kinds.size(), OptimizerNames().size());
  for (const Case& one : reference.cases) {
    ASSERT_EQ(one.after.rbegin()->first, 100) << one.name;
    Follow<float>(reference, one, 1e-6);
    Follow<double>(reference, one, 1e-12);
  }
}

}  // namespace
}  // namespace sluice

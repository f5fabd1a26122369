// The table of optimisers and everything that is looked up in it: names, defaults, and Optimizer::Create.
// An optimiser is one row here and a formula in formulas/. All functions are thread-safe.
#include "optimizer/registry.h"

#include <algorithm>
#include <iterator>

#include "optimizer/formula_optimizer.h"
#include "optimizer/formulas/adam.h"
#include "optimizer/formulas/adaptive.h"
#include "optimizer/formulas/descent.h"
#include "optimizer/schedule.h"

namespace sluice {
namespace {

using enum OptimizerKind;
using Made = std::unique_ptr<const Optimizer>;

template <template <typename> typename Formula>
Made Make(const OptimizerConfig& config) {
  return std::make_unique<FormulaOptimizer<Formula>>(config);
}
// Makes the optimiser of one formula or of another, because momentum is a state of its own.
template <template <typename> typename Plain, template <typename> typename WithMomentum>
Made MakeByMomentum(const OptimizerConfig& config) {
  return config.momentum == 0 ? Make<Plain>(config) : Make<WithMomentum>(config);
}
Made MakeRmsProp(const OptimizerConfig& config) {
  using namespace formulas;
  return config.centered ? MakeByMomentum<RmsPropCentered, RmsPropCenteredMomentum>(config)
                         : MakeByMomentum<RmsProp, RmsPropMomentum>(config);
}

constexpr double kUnused = 0;  // momentum of kinds that do not read it

// The values are those of python/mxnet/optimizer/*.py of MXNet 2.0, whose
// accumulate ("test") has no learning rate.
constexpr OptimizerRow kRows[] = {
    // kind, name, make, reads_momentum, learning_rate, momentum, epsilon
    {kSgd, "sgd", MakeByMomentum<formulas::Sgd, formulas::SgdMomentum>, true, 0.1, 0, 1e-8},
    {kNag, "nag", Make<formulas::Nag>, true, 0.1, 0.9, 1e-8},
    {kAdam, "adam", Make<formulas::Adam>, false, 0.001, kUnused, 1e-8},
    {kAccumulate, "accumulate", Make<formulas::Accumulate>, false, 0.01, kUnused, 1e-8},
    {kAdamW, "adamw", Make<formulas::AdamW>, false, 0.001, kUnused, 1e-6},
    {kAdaGrad, "adagrad", Make<formulas::AdaGrad>, false, 0.01, kUnused, 1e-6},
    {kRmsProp, "rmsprop", MakeRmsProp, true, 0.001, 0.9, 1e-8},
    {kFtrl, "ftrl", Make<formulas::Ftrl>, false, 0.1, kUnused, 1e-8},
    {kLamb, "lamb", Make<formulas::Lamb>, false, 0.001, kUnused, 1e-6},
    {kSignum, "signum", MakeByMomentum<formulas::SignSgd, formulas::Signum>, true, 0.01, 0.9, 1e-8}};

constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].kind != static_cast<OptimizerKind>(i)) return false;
  }
  return true;
}
static_assert(InOrder());

}  // namespace

std::span<const OptimizerRow> OptimizerRows() {
  return kRows;
}

const OptimizerRow* FindOptimizerRow(OptimizerKind kind) {
  const auto index = static_cast<size_t>(kind);
  return index < std::size(kRows) ? &kRows[index] : nullptr;
}

std::string_view Name(OptimizerKind kind) {
  const OptimizerRow* row = FindOptimizerRow(kind);
  return row == nullptr ? "unknown" : row->name;
}

std::optional<OptimizerKind> OptimizerKindOf(std::string_view name) {
  const auto found = std::ranges::find(kRows, name, &OptimizerRow::name);
  if (found == std::end(kRows)) return std::nullopt;
  return found->kind;
}

std::vector<std::string_view> OptimizerNames() {
  std::vector<std::string_view> names;
  for (const OptimizerRow& row : kRows) names.push_back(row.name);
  return names;
}

bool ReadsMomentum(OptimizerKind kind) {
  const OptimizerRow* row = FindOptimizerRow(kind);
  return row != nullptr && row->reads_momentum;
}

OptimizerConfig Resolved(OptimizerConfig config) {
  const OptimizerRow* found = FindOptimizerRow(config.kind);
  const OptimizerRow& row = found == nullptr ? kRows[0] : *found;  // InvalidReason refuses an unknown kind
  if (config.learning_rate == kUnset) config.learning_rate = row.learning_rate;
  if (config.momentum == kUnset) config.momentum = row.momentum;
  if (config.epsilon == kUnset) config.epsilon = row.epsilon;
  return config;
}

double Optimizer::LearningRate(int64_t t) const {
  return LearningRateAt(config_.schedule, config_.learning_rate, t);
}

std::unique_ptr<const Optimizer> Optimizer::Create(const OptimizerConfig& config) {
  if (const std::string why = InvalidReason(config); !why.empty())
    throw Error(ErrorCode::kInvalidArgument, why);
  return FindOptimizerRow(config.kind)->make(Resolved(config));
}

}  // namespace sluice

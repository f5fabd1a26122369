// The table of optimisers and everything that is looked up in it: names, defaults, and Optimizer::Create.
// An optimiser is one row here, a formula in formulas/ and its line in formula_of.h. All functions are
// thread-safe.
#include "optimizer/registry.h"

#include <algorithm>
#include <iterator>

#include "base/strings.h"
#include "optimizer/formula_optimizer.h"
#include "optimizer/schedule.h"

namespace sluice {
namespace {

using enum OptimizerKind;
constexpr double kUnused = 0;  // momentum of kinds that do not read it

// The values are those of python/mxnet/optimizer/*.py of MXNet 2.0, whose
// accumulate ("test") has no learning rate.
constexpr OptimizerRow kRows[] = {
    // kind, name, reads_momentum, learning_rate, momentum, epsilon
    {kSgd, "sgd", true, 0.1, 0, 1e-8},
    {kNag, "nag", true, 0.1, 0.9, 1e-8},
    {kAdam, "adam", false, 0.001, kUnused, 1e-8},
    {kAccumulate, "accumulate", false, 0.01, kUnused, 1e-8},
    {kAdamW, "adamw", false, 0.001, kUnused, 1e-6},
    {kAdaGrad, "adagrad", false, 0.01, kUnused, 1e-6},
    {kRmsProp, "rmsprop", true, 0.001, 0.9, 1e-8},
    {kFtrl, "ftrl", false, 0.1, kUnused, 1e-8},
    {kLamb, "lamb", false, 0.001, kUnused, 1e-6},
    {kSignum, "signum", true, 0.01, 0.9, 1e-8},
    {kDelayedNag, "delayed_nag", true, 0.1, 0.9, 1e-8}};

constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].kind != static_cast<OptimizerKind>(i)) return false;
  }
  return true;
}
static_assert(InOrder());

bool IsDescent(OptimizerKind kind) {
  return kind == kSgd || kind == kNag;
}

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

OptimizerConfig ResolvedForAsync(OptimizerConfig config, int workers) {
  if (workers > 1 && config.kind != kDelayedNag) {
    if (config.momentum == kUnset) config.momentum = 0;
    if (config.learning_rate == kUnset && config.kind != kAccumulate)
      config.learning_rate =
          Resolved(config).learning_rate * std::min(1.0, (IsDescent(config.kind) ? 3.0 : 4.0) / workers);
  }
  return Resolved(std::move(config));
}

std::string DivergenceReason(const OptimizerConfig& config, int workers) {
  const OptimizerConfig c = ResolvedForAsync(config, workers);
  if (!InvalidReason(c).empty() || workers < 2 || !IsDescent(c.kind) ||
      c.learning_rate / (1 - c.momentum) < std::min(0.25, 0.5 / workers))
    return "";
  return StrCat(
      "an async store with ", workers, " workers, learning rate ", c.learning_rate, " and momentum ",
      c.momentum,
      " may diverge: every worker's push moves the weights on its own. Where neither is given, what "
      "converges is chosen");
}

double Optimizer::LearningRate(int64_t t) const {
  return LearningRateAt(config_.schedule, config_.learning_rate, t);
}

std::unique_ptr<const Optimizer> Optimizer::Create(const OptimizerConfig& config) {
  if (const std::string why = InvalidReason(config); !why.empty())
    throw Error(ErrorCode::kInvalidArgument, why);
  const OptimizerConfig resolved = Resolved(config);
  return WithFormula(resolved,
                     [&]<template <typename> typename Formula>() -> std::unique_ptr<const Optimizer> {
                       return std::make_unique<FormulaOptimizer<Formula>>(resolved);
                     });
}

}  // namespace sluice

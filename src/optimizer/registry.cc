#include "optimizer/registry.h"

#include <algorithm>
#include <iterator>

#include "optimizer/typed.h"

namespace sluice {
namespace {

using enum OptimizerKind;

constexpr double kUnused = 0;  // momentum of kinds that do not read it

// The values are those of python/mxnet/optimizer/*.py of MXNet 2.0, whose
// accumulate ("test") has no learning rate.
constexpr OptimizerRow kRows[] = {
    // kind, name, make, reads_momentum, learning_rate, momentum, epsilon
    {kSgd, "sgd", MakeSgd, true, 0.1, 0, 1e-8},
    {kNag, "nag", MakeNag, true, 0.1, 0.9, 1e-8},
    {kAdam, "adam", MakeAdam, false, 0.001, kUnused, 1e-8},
    {kAccumulate, "accumulate", MakeAccumulate, false, 0.01, kUnused, 1e-8},
    {kAdamW, "adamw", MakeAdamW, false, 0.001, kUnused, 1e-6},
    {kAdaGrad, "adagrad", MakeAdaGrad, false, 0.01, kUnused, 1e-6},
    {kRmsProp, "rmsprop", MakeRmsProp, true, 0.001, 0.9, 1e-8},
    {kFtrl, "ftrl", MakeFtrl, false, 0.1, kUnused, 1e-8},
    {kLamb, "lamb", MakeLamb, false, 0.001, kUnused, 1e-6},
    {kSignum, "signum", MakeSignum, true, 0.01, 0.9, 1e-8}};

constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].kind != static_cast<OptimizerKind>(i)) return false;
  }
  return true;
}
static_assert(InOrder() && kRows[std::size(kRows) - 1].kind == kLastOptimizerKind);

}  // namespace

std::span<const OptimizerRow> OptimizerRows() {
  return kRows;
}

const OptimizerRow* FindOptimizerRow(OptimizerKind kind) {
  return kind <= kLastOptimizerKind ? &kRows[static_cast<size_t>(kind)] : nullptr;
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

}  // namespace sluice

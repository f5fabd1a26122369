#include "sluice/nn/activation.h"

#include <cmath>

#include "autograd/ops.h"
#include "nn/activation.h"
#include "nn/require.h"

namespace sluice::nn {
namespace {

using Function = Activation::Function;

// What layers know about a function. The rows of the table are in the order of Function.
struct Row {
  Function function;
  ActivationKind kind;
  bool monotone;
  std::string_view name;
  std::string_view alias;  // is empty where there is none
};
constexpr Row kRows[] = {{Function::kRelu, ActivationKind::kRelu, true, "relu", ""},
                         {Function::kTanh, ActivationKind::kTanh, true, "tanh", ""},
                         {Function::kSigmoid, ActivationKind::kSigmoid, true, "sigmoid", ""},
                         {Function::kLeakyRelu, ActivationKind::kLeakyRelu, true, "leaky_relu", ""},
                         {Function::kElu, ActivationKind::kElu, true, "elu", ""},
                         {Function::kGelu, ActivationKind::kGelu, false, "gelu", ""},
                         {Function::kSoftplus, ActivationKind::kSoftplus, true, "softplus", "softrelu"},
                         {Function::kSilu, ActivationKind::kSilu, false, "silu", "swish"},
                         {Function::kSoftsign, ActivationKind::kSoftsign, true, "softsign", ""},
                         {Function::kLogSigmoid, ActivationKind::kLogSigmoid, true, "log_sigmoid", ""},
                         {Function::kMish, ActivationKind::kMish, false, "mish", ""}};

const Row& RowOf(Function function) {
  for (const Row& row : kRows)
    if (row.function == function) return row;
  ThrowInvalid(StrCat("Activation: there is no function ", static_cast<int>(function)));
}

Function ByName(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) {
    for (const std::string_view one : {row.name, row.alias}) {
      if (one.empty()) continue;
      if (one == name) return row.function;
      names.push_back(one);
    }
  }
  ThrowInvalid(StrCat("no activation is called '", name, "'; there are ", StrJoin(names)));
}

bool HasAlpha(Function function) {
  return function == Function::kLeakyRelu || function == Function::kElu;
}

float DefaultAlpha(Function function) {
  return function == Function::kLeakyRelu ? 0.01f : 1.0f;
}

}  // namespace

Activation::Activation(Function function, std::optional<float> alpha)
    : function_(RowOf(function).function), alpha_(alpha.value_or(DefaultAlpha(function))) {
  if (alpha && !HasAlpha(function)) ThrowInvalid("Activation: only leaky_relu and elu have an alpha");
  if (!(alpha_ >= 0) || !std::isfinite(alpha_))
    ThrowInvalid(StrCat("Activation: alpha is ", alpha_, "; it must be a number that is at least 0"));
}

Activation::Activation(std::string_view name) : Activation(ByName(name)) {}

std::vector<std::string_view> Activation::Names() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) names.push_back(row.name);
  return names;
}

NDArray Activation::Forward(const NDArray& x) {
  return ops::Activation(ToOps(*this), x);
}

ActivationShape ToOps(const Activation& activation) {
  const Function function = activation.function();
  return {RowOf(function).kind, HasAlpha(function) ? activation.alpha() : 0};
}

bool IsMonotone(const Activation& activation) {
  return RowOf(activation.function()).monotone;
}

}  // namespace sluice::nn

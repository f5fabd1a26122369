#include "sluice/nn/activation.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "nn/fusion.h"
#include "nn/require.h"

namespace sluice::nn {
namespace {

using Function = Activation::Function;

struct Named {
  std::string_view name;
  Function function;
};
constexpr Named kFunctions[] = {{"relu", Function::kRelu},         {"tanh", Function::kTanh},
                                {"sigmoid", Function::kSigmoid},   {"leaky_relu", Function::kLeakyRelu},
                                {"elu", Function::kElu},           {"gelu", Function::kGelu},
                                {"softplus", Function::kSoftplus}, {"softrelu", Function::kSoftplus},
                                {"silu", Function::kSilu},         {"swish", Function::kSilu},
                                {"softsign", Function::kSoftsign}, {"log_sigmoid", Function::kLogSigmoid},
                                {"mish", Function::kMish}};

Function ByName(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                         [&](const Named& f) { return f.name == name; });
  if (found != std::end(kFunctions)) return found->function;
  std::vector<std::string_view> names;
  for (const Named& f : kFunctions) names.push_back(f.name);
  ThrowInvalid(StrCat("no activation is called '", name, "'; there are ", StrJoin(names)));
}

float DefaultAlpha(Function function) {
  return function == Function::kLeakyRelu ? 0.01f : 1.0f;
}

}  // namespace

Activation::Activation(Function function, std::optional<float> alpha)
    : function_(function), alpha_(alpha.value_or(DefaultAlpha(function))) {
  if (alpha && function != Function::kLeakyRelu && function != Function::kElu)
    ThrowInvalid("Activation: only leaky_relu and elu have an alpha");
  if (!(alpha_ >= 0) || !std::isfinite(alpha_))
    ThrowInvalid(StrCat("Activation: alpha is ", alpha_, "; it must be a number that is at least 0"));
}

Activation::Activation(std::string_view name) : Activation(ByName(name)) {}

NDArray Activation::Forward(const NDArray& x) {
  return ops::Activation(ToOps(*this), x);
}

}  // namespace sluice::nn

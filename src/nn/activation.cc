#include "sluice/nn/activation.h"

#include <algorithm>
#include <array>

#include "autograd/ops.h"
#include "nn/require.h"

namespace sluice::nn {

Activation::Activation(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Function>, 3> kFunctions = {
      {{"relu", Function::kRelu}, {"tanh", Function::kTanh}, {"sigmoid", Function::kSigmoid}}};
  const auto found =
      std::find_if(kFunctions.begin(), kFunctions.end(), [&](const auto& f) { return f.first == name; });
  if (found == kFunctions.end())
    Refuse(StrCat("no activation is called '", name, "'; there are relu, tanh, sigmoid"));
  function_ = found->second;
}

NDArray Activation::Forward(const NDArray& x) {
  switch (function_) {
    case Function::kRelu:
      return ops::Relu(x);
    case Function::kTanh:
      return ops::Tanh(x);
    case Function::kSigmoid:
      break;
  }
  return ops::Sigmoid(x);
}

}  // namespace sluice::nn

// Activations: sluice/nn.h.
#pragma once

#include "sluice/nn/layer.h"

namespace sluice::nn {

// Element by element: relu max(x, 0) (gradient 0 at 0), tanh, sigmoid 1 / (1 + exp(-x)).
class Activation final : public PlainLayer {
 public:
  enum class Function : uint8_t { kRelu, kTanh, kSigmoid };
  explicit Activation(Function function) : function_(function) {}
  explicit Activation(std::string_view name);  // "relu", "tanh", "sigmoid"
  static Activation Relu() { return Activation(Function::kRelu); }
  static Activation Tanh() { return Activation(Function::kTanh); }
  static Activation Sigmoid() { return Activation(Function::kSigmoid); }
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "Activation"; }

 private:
  Function function_;
};

}  // namespace sluice::nn

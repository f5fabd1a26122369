// Activation layers, which work element by element; see sluice/nn.h.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "sluice/nn/layer.h"

namespace sluice::nn {

// The functions, with their names:
// relu         max(x, 0), gradient 0 at 0
// tanh
// sigmoid      1 / (1 + exp(-x))
// leaky_relu   x for x > 0, else alpha x (alpha 0.01; Maas, Hannun, Ng 2013)
// elu          x for x > 0, else alpha (exp(x) - 1) (alpha 1; Clevert, Unterthiner, Hochreiter 2016)
// gelu         x (1 + erf(x / sqrt 2)) / 2, not its tanh approximation (Hendrycks, Gimpel 2016)
// softplus     log(1 + exp(x)); MXNet's "softrelu" is another name for it
// silu         x sigmoid(x); "swish" is another name for it
// softsign     x / (1 + |x|)
// log_sigmoid  -log(1 + exp(-x))
// mish         x tanh(softplus(x)) (Misra 2020)
class Activation final : public PlainLayer {
 public:
  enum class Function : uint8_t {
    kRelu,
    kTanh,
    kSigmoid,
    kLeakyRelu,
    kElu,
    kGelu,
    kSoftplus,
    kSilu,
    kSoftsign,
    kLogSigmoid,
    kMish
  };
  // Throws Error(kInvalidArgument) for an alpha below 0, for an alpha where the function has none, or for a
  // value that is no Function.
  explicit Activation(Function function, std::optional<float> alpha = std::nullopt);
  // Takes a name of the table above. Throws Error(kInvalidArgument), which lists the names, for any other.
  explicit Activation(std::string_view name);
  // Returns the names in the order of the table above, without the other names that some functions have.
  static std::vector<std::string_view> Names();
  static Activation Relu() { return Activation(Function::kRelu); }
  static Activation Tanh() { return Activation(Function::kTanh); }
  static Activation Sigmoid() { return Activation(Function::kSigmoid); }
  static Activation LeakyRelu(float alpha = 0.01f) { return Activation(Function::kLeakyRelu, alpha); }
  static Activation Elu(float alpha = 1) { return Activation(Function::kElu, alpha); }
  static Activation Gelu() { return Activation(Function::kGelu); }
  static Activation Softplus() { return Activation(Function::kSoftplus); }
  static Activation Silu() { return Activation(Function::kSilu); }
  static Activation Softsign() { return Activation(Function::kSoftsign); }
  static Activation LogSigmoid() { return Activation(Function::kLogSigmoid); }
  static Activation Mish() { return Activation(Function::kMish); }
  NDArray Forward(const NDArray& x) override;
  std::string_view kind() const override { return "Activation"; }
  Function function() const { return function_; }
  float alpha() const { return alpha_; }

 private:
  Function function_;
  float alpha_;
};

}  // namespace sluice::nn

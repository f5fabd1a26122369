#include "sluice/nn/norm.h"

#include <cmath>

#include "autograd/ops.h"
#include "nn/require.h"

namespace sluice::nn {
namespace {

template <typename Init>
ParameterOptions FactorOptions() {
  return {.wd_mult = 0, .castable = false, .init = std::make_shared<Init>()};
}

template <typename Init>
ParameterOptions StatisticOptions() {
  return {.wd_mult = 0, .castable = false, .differentiable = false, .init = std::make_shared<Init>()};
}

void RequireEpsilon(std::string_view kind, double epsilon) {
  if (!(epsilon > 0) || !std::isfinite(epsilon))
    ThrowInvalid(StrCat(kind, ": epsilon is ", epsilon, "; it must be a positive number"));
}

// Returns the parameter's array on x's context. If its shape is deferred, `size` sets it.
NDArray& FactorFor(Parameter& parameter, const NDArray& x, int64_t size) {
  parameter.SetShape({size});
  return parameter.data(x.context());
}

}  // namespace

BatchNorm::BatchNorm(Options options) : options_(options) {
  RequireEpsilon("BatchNorm", options.epsilon);
  if (!(options.momentum >= 0 && options.momentum <= 1))
    ThrowInvalid(StrCat("BatchNorm: momentum is ", options.momentum, "; it must be from 0 to 1"));
  RequireAtLeast("BatchNorm: in_channels", options.in_channels, 0);
  const Shape shape = {options.in_channels};
  if (options.scale) AddParameter("gamma", shape, FactorOptions<One>());
  if (options.center) AddParameter("beta", shape, FactorOptions<Zero>());
  AddParameter("running_mean", shape, StatisticOptions<Zero>());
  AddParameter("running_var", shape, StatisticOptions<One>());
}

NDArray BatchNorm::Run(const NDArray& x, bool relu, const NDArray& addend) {
  RequireArrayFor(Describe(), "its input", x);
  const Shape& shape = x.shape();
  const int64_t known = parameter(0).shape()[0];
  if (shape.ndim() < 2 || shape[1] == 0 || (known != 0 && shape[1] != known)) {
    ThrowInvalid(StrCat(Describe(), " expects input of shape [batch, ",
                        known == 0 ? "channels" : std::to_string(known), ", ...] and got ", shape));
  }
  size_t i = 0;
  const NDArray gamma = options_.scale ? FactorFor(parameter(i++), x, shape[1]) : NDArray();
  const NDArray beta = options_.center ? FactorFor(parameter(i++), x, shape[1]) : NDArray();
  NDArray &mean = FactorFor(parameter(i), x, shape[1]), &variance = FactorFor(parameter(i + 1), x, shape[1]);
  return ops::BatchNorm(x, gamma, beta, mean, variance,
                        {.epsilon = static_cast<float>(options_.epsilon),
                         .momentum = static_cast<float>(options_.momentum),
                         .training = autograd::IsTraining() && !options_.use_global_stats,
                         .relu = relu},
                        addend);
}

LayerNorm::LayerNorm(Options options) : options_(options) {
  RequireEpsilon("LayerNorm", options.epsilon);
  RequireAtLeast("LayerNorm: in_channels", options.in_channels, 0);
  const Shape shape = {options.in_channels};
  if (options.scale) AddParameter("gamma", shape, FactorOptions<One>());
  if (options.center) AddParameter("beta", shape, FactorOptions<Zero>());
}

NDArray LayerNorm::Forward(const NDArray& x) {
  RequireArrayFor(Describe(), "its input", x);
  const Shape& shape = x.shape();
  const int64_t known = num_parameters() > 0 ? parameter(0).shape()[0] : options_.in_channels;
  const int64_t channels = shape.ndim() < 2 ? 0 : shape[shape.ndim() - 1];
  if (channels == 0 || (known != 0 && channels != known)) {
    ThrowInvalid(StrCat(Describe(), " expects input of shape [batch, ..., ",
                        known == 0 ? "channels" : std::to_string(known), "] and got ", shape));
  }
  const NDArray gamma = options_.scale ? FactorFor(parameter(0), x, channels) : NDArray();
  const NDArray beta = options_.center ? FactorFor(parameter(num_parameters() - 1), x, channels) : NDArray();
  return ops::LayerNorm(x, gamma, beta, static_cast<float>(options_.epsilon));
}

}  // namespace sluice::nn

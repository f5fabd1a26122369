#include "sluice/initializer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/hash.h"
#include "base/rng.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::nn {
namespace {

std::vector<float> Draw(std::string_view name, const Shape& shape, uint64_t seed, RandomType type,
                        double scale) {
  Rng rng(DeriveSeed(seed, Fnv1a(name)));
  std::vector<float> values(static_cast<size_t>(shape.size()));
  for (float& value : values) {
    value =
        static_cast<float>(type == RandomType::kUniform ? rng.Uniform(-scale, scale) : scale * rng.Normal());
  }
  return values;
}

void RequirePositive(const char* what, double value) {
  if (std::isfinite(value) && value > 0) return;
  throw Error(ErrorCode::kInvalidArgument,
              StrCat(what, " is ", value, "; it must be a positive finite number"));
}

}  // namespace

Xavier::Xavier(RandomType random_type, FactorType factor_type, double magnitude)
    : random_type_(random_type), factor_type_(factor_type), magnitude_(magnitude) {
  RequirePositive("Xavier's magnitude", magnitude);
}

std::vector<float> Xavier::Values(std::string_view name, const Shape& shape, uint64_t seed) const {
  if (shape.ndim() < 2 || shape.size() == 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        StrCat(
            "Xavier cannot fill parameter '", name, "' of shape ", shape,
            ": it needs at least two axes and no empty one; give the parameter an initialiser of its own"));
  }
  const auto dims = shape.dims();
  const double window = std::accumulate(dims.begin() + 2, dims.end(), 1.0, std::multiplies<>());
  const double fan_in = static_cast<double>(dims[1]) * window;
  const double fan_out = static_cast<double>(dims[0]) * window;
  const double factor = factor_type_ == FactorType::kIn    ? fan_in
                        : factor_type_ == FactorType::kOut ? fan_out
                                                           : (fan_in + fan_out) / 2;
  return Draw(name, shape, seed, random_type_, std::sqrt(magnitude_ / factor));
}

Uniform::Uniform(double scale) : scale_(scale) {
  RequirePositive("Uniform's scale", scale);
}

std::vector<float> Uniform::Values(std::string_view name, const Shape& shape, uint64_t seed) const {
  return Draw(name, shape, seed, RandomType::kUniform, scale_);
}

Normal::Normal(double sigma) : sigma_(sigma) {
  RequirePositive("Normal's sigma", sigma);
}

std::vector<float> Normal::Values(std::string_view name, const Shape& shape, uint64_t seed) const {
  return Draw(name, shape, seed, RandomType::kGaussian, sigma_);
}

std::vector<float> Constant::Values(std::string_view, const Shape& shape, uint64_t) const {
  return std::vector<float>(static_cast<size_t>(shape.size()), value_);
}

std::vector<float> LstmBias::Values(std::string_view name, const Shape& shape, uint64_t) const {
  if (shape.ndim() != 1 || shape[0] % 4 != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("LstmBias: parameter ", name, " has shape ", shape, "; it must be [4 hidden]"));
  }
  std::vector<float> values(static_cast<size_t>(shape[0]));
  const auto hidden = static_cast<std::ptrdiff_t>(values.size() / 4);
  std::fill_n(values.begin() + hidden, hidden, forget_);  // the gates are i, f, g, o
  return values;
}

}  // namespace sluice::nn

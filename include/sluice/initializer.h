// Initialisers compute the values of parameters before training.
//
// The values are a pure function of (seed, parameter name, shape), and so the same on every context, worker
// and machine. The fan-in and the fan-out of a weight [out, in, k...] are in * prod(k) and out * prod(k).
//
// Thread safety: immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "sluice/shape.h"

namespace sluice::nn {

class Initializer {
 public:
  virtual ~Initializer() = default;
  // Returns shape.size() values, row-major. Throws Error(kInvalidArgument), which names the parameter, when
  // the initialiser cannot be used for the shape.
  virtual std::vector<float> Values(std::string_view name, const Shape& shape, uint64_t seed) const = 0;
};

enum class RandomType : uint8_t { kUniform, kGaussian };
enum class FactorType : uint8_t { kAvg, kIn, kOut };

// MXNet's Xavier, which is that of Glorot, Bengio 2010 with other factors to choose from. scale =
// sqrt(magnitude / factor), where factor is (fan_in + fan_out) / 2, fan_in or fan_out; values are
// U[-scale, scale) or N(0, scale). The default is Glorot's uniform with scale sqrt(6 / (fan_in + fan_out)).
// The parameter must have at least two axes.
class Xavier final : public Initializer {
 public:
  explicit Xavier(RandomType random_type = RandomType::kUniform, FactorType factor_type = FactorType::kAvg,
                  double magnitude = 3);
  std::vector<float> Values(std::string_view name, const Shape& shape, uint64_t seed) const override;

 private:
  RandomType random_type_;
  FactorType factor_type_;
  double magnitude_;
};

// Uniform values: U[-scale, scale).
class Uniform final : public Initializer {
 public:
  explicit Uniform(double scale = 0.07);
  std::vector<float> Values(std::string_view name, const Shape& shape, uint64_t seed) const override;

 private:
  double scale_;
};

// Normal values: N(0, sigma).
class Normal final : public Initializer {
 public:
  explicit Normal(double sigma = 0.01);
  std::vector<float> Values(std::string_view name, const Shape& shape, uint64_t seed) const override;

 private:
  double sigma_;
};

class Constant : public Initializer {
 public:
  explicit Constant(double value) : value_(static_cast<float>(value)) {}
  std::vector<float> Values(std::string_view name, const Shape& shape, uint64_t seed) const override;

 private:
  float value_;
};

class Zero final : public Constant {
 public:
  Zero() : Constant(0) {}
};

class One final : public Constant {
 public:
  One() : Constant(1) {}
};

// The values of a bias of nn::Lstm, [4 hidden]: `forget` for the forget gates, so that a network begins by
// remembering (Gers, Schmidhuber, Cummins 2000; Jozefowicz, Zaremba, Sutskever 2015), and 0 for all others.
// Use it for one of the two biases only, since they are added.
class LstmBias final : public Initializer {
 public:
  explicit LstmBias(double forget = 1) : forget_(static_cast<float>(forget)) {}
  std::vector<float> Values(std::string_view name, const Shape& shape, uint64_t seed) const override;

 private:
  float forget_;
};

}  // namespace sluice::nn

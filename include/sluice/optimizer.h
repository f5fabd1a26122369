// Optimisers: plain configurations that travel to where the weights are, and the arithmetic that runs there.
//
// With g = clip(gradient * grad_scale * rescale_grad) + wd * wd_mult * w, lr = schedule(t) * lr_mult and
// t = num_update / updates_per_step, rounded up:
//   sgd          v = momentum * v - lr * g;  w += v
//                (MXNet's SGD; equal to PyTorch's at a constant learning rate)
//   nag          v = momentum * v - lr * g;  w += momentum * v - lr * g   (Nesterov 1983, as MXNet's NAG)
//   adam         m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
//                w -= lr * (m / (1 - b1^num_update)) / (sqrt(v / (1 - b2^num_update)) + eps)
//                (Kingma, Ba 2015; eps outside the root)
//   accumulate   w += rescale_grad * grad_scale * gradient   (no learning rate, no weight decay, no clipping)
// clip bounds each element to [-clip_gradient, clip_gradient] when clip_gradient > 0.
// docs/design/optimizers.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

enum class OptimizerKind : uint8_t { kSgd, kNag, kAdam, kAccumulate };
enum class LrScheduleKind : uint8_t { kConstant, kFactor, kMultiFactor, kPoly, kCosine };
enum class WarmupMode : uint8_t { kLinear, kConstant };

// The learning rate as a function of t, the steps of all workers together, counted from 1: in async stores,
// where a step of n workers is n updates, t grows with every n-th. MXNet's lr_scheduler formulas.
struct LrSchedule {
  LrScheduleKind kind = LrScheduleKind::kConstant;
  double factor = 1;             // factor, multi_factor: what the rate is multiplied by
  int64_t step = 1;              // factor: after every `step` updates
  double stop_factor_lr = 1e-8;  // factor: never below
  std::vector<int64_t> steps;    // multi_factor: after each of these, ascending; 0: from the start
  int64_t max_update = 1;        // poly, cosine: when final_lr is reached
  double final_lr = 0;
  double power = 2;          // poly
  int64_t warmup_steps = 0;  // all: the first updates rise from warmup_begin_lr to the base rate
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::kLinear;
  bool operator==(const LrSchedule&) const = default;
};

struct LrWdMultiplier {
  double lr_mult = 1;
  double wd_mult = 1;
  bool operator==(const LrWdMultiplier&) const = default;
};

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kSgd;
  double learning_rate = 0.01;
  double momentum = 0;
  double wd = 0;
  double clip_gradient = 0;  // <= 0: off
  double rescale_grad = 1;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  LrSchedule schedule;
  bool normalize_by_samples = false;  // divide by the round's samples in place of the push's divisor
  std::map<std::string, LrWdMultiplier> multipliers;  // by key; integer keys in decimal
  bool operator==(const OptimizerConfig&) const = default;
};

std::string_view Name(OptimizerKind kind);  // "sgd"
// Empty when sound; else which field has which value, and what it accepts.
std::string WhyInvalid(const OptimizerConfig& config);

// The arithmetic. Immutable and thread-safe. The result for an element does not depend on how elements are
// cut into calls.
class Optimizer {
 public:
  // Throws Error(kInvalidArgument) with WhyInvalid's text.
  static std::unique_ptr<const Optimizer> Create(const OptimizerConfig& config);
  virtual ~Optimizer() = default;

  struct Step {
    int64_t num_update = 1;  // of this key, from 1
    // Schedules count steps of all workers together. Async: each worker's push of a step is an update.
    int64_t updates_per_step = 1;
    double lr_mult = 1;
    double wd_mult = 1;
    double grad_scale = 1;  // 1 / divisor or 1 / samples
  };

  const OptimizerConfig& config() const { return config_; }
  // State arrays beside the weight, each of its size, zero at first.
  virtual std::span<const std::string_view> slot_names() const = 0;
  size_t num_slots() const { return slot_names().size(); }
  double LearningRate(int64_t t) const;  // without lr_mult
  // new_weight may be weight; slots[i] is updated in place. 16-bit weights come through float.
  virtual void Update(const Step& step, const float* weight, float* new_weight, const float* gradient,
                      float* const* slots, size_t n) const = 0;
  virtual void Update(const Step& step, const double* weight, double* new_weight, const double* gradient,
                      double* const* slots, size_t n) const = 0;

 protected:
  explicit Optimizer(const OptimizerConfig& config) : config_(config) {}
  const OptimizerConfig config_;
};

}  // namespace sluice

// Optimisers: plain configurations that travel to where the weights are, and the arithmetic that runs there.
//
// With G = clip(gradient * grad_scale * rescale_grad), g = G + D * w, D = wd * wd_mult, u = num_update,
// lr = schedule(t) * lr_mult and t = u / updates_per_step, rounded up:
//   sgd          v = momentum * v - lr * g;  w += v
//                (MXNet's SGD; equal to PyTorch's at a constant learning rate)
//   nag          v = momentum * v - lr * g;  w += momentum * v - lr * g   (Nesterov 1983, as MXNet's NAG)
//   adam         m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
//                w -= lr * (m / (1 - b1^u)) / (sqrt(v / (1 - b2^u)) + eps)
//                (Kingma, Ba 2015; eps outside the root)
//   accumulate   w += rescale_grad * grad_scale * gradient   (no learning rate, no weight decay, no clipping)
//   adamw        m = b1 m + (1 - b1) G;  v = b2 v + (1 - b2) G^2;
//                w -= lr * ((m / (1 - b1^u)) / (sqrt(v / (1 - b2^u)) + eps) + D * w)
//                (Loshchilov, Hutter 2019, decay times lr as PyTorch's)
//   adagrad      h += g^2;  w -= lr * g / (sqrt(h) + eps)   (Duchi, Hazan, Singer 2011)
//   rmsprop      n = rho * n + (1 - rho) g^2;  w -= lr * g / (sqrt(n) + eps)   (Tieleman, Hinton 2012)
//     centered   n likewise, m = rho * m + (1 - rho) g;  w -= lr * g / sqrt(max(n - m^2, 0) + eps)
//                (Graves 2013, (38) to (41))
//     momentum   of both: v = momentum * v - that step;  w += v
//   ftrl         z += G - (sqrt(n + G^2) - sqrt(n)) / lr * w;  n += G^2;
//                w = |z| > lambda1 ? (sign(z) lambda1 - z) / ((beta + sqrt(n)) / lr + D) : 0
//                (McMahan et al. 2013; lr = 0 changes nothing)
//   lamb         m, v as adamw's;  r = (m / (1 - b1^u)) / (sqrt(v / (1 - b2^u)) + eps) + D * w;
//                w -= lr * q * r,  q = bound(|w|) / |r| with 2-norms over the key's whole array, 1 where a
//                norm is 0   (You et al. 2020, algorithm 2)
//   signum       s = momentum * s + (1 - momentum) g;  w -= lr * (sign(s) + wd_lh * wd_mult * w)
//                (Bernstein et al. 2018; without momentum signSGD)
// clip bounds each element to [-clip_gradient, clip_gradient] when clip_gradient > 0.
// docs/design/optimizers.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/error.h"

namespace sluice {

enum class OptimizerKind : uint8_t {
  kSgd,
  kNag,
  kAdam,
  kAccumulate,
  kAdamW,
  kAdaGrad,
  kRmsProp,
  kFtrl,
  kLamb,
  kSignum
};
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

// A learning rate, momentum or epsilon that is not set: the kind's own counts (Resolved). It is below 0, and
// so is what a program makes of it, such as kUnset * 8, which is refused.
inline constexpr double kUnset = -0x1p-1000;

// Fields that are not set take the value of the kind, as MXNet 2.0 has them:
//                       learning_rate  momentum  epsilon
//   sgd                      0.1          0         -
//   nag                      0.1          0.9       -
//   adam                     0.001        -         1e-8
//   adamw, lamb              0.001        -         1e-6
//   adagrad                  0.01         -         1e-6
//   rmsprop                  0.001        0.9       1e-8
//   ftrl                     0.1          -         -
//   signum                   0.01         0.9       -
struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kSgd;
  double learning_rate = kUnset;
  double momentum = kUnset;  // sgd, nag, rmsprop, signum
  double wd = 0;
  double clip_gradient = 0;  // <= 0: off
  double rescale_grad = 1;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = kUnset;
  double rho = 0.9;        // rmsprop: how much of the averages stays
  bool centered = false;   // rmsprop: by the variance in place of the mean square
  double lambda1 = 0.01;   // ftrl: L1 regularisation
  double beta = 1;         // ftrl: the larger, the slower the first updates
  double lower_bound = 0;  // lamb: of the weight's norm
  double upper_bound = 0;  // lamb: likewise; 0: none
  double wd_lh = 0;        // signum: decoupled weight decay
  // float16 and bfloat16 weights are rounded from a float32 master that the states keep: steps too small for
  // 16 bits add up. No effect on weights of other types.
  bool multi_precision = false;
  LrSchedule schedule;
  bool normalize_by_samples = false;  // divide by the round's samples in place of the push's divisor
  std::map<std::string, LrWdMultiplier> multipliers;  // by key; integer keys in decimal
  bool operator==(const OptimizerConfig&) const = default;
};

std::string_view Name(OptimizerKind kind);  // "sgd"
// The other way round; nullopt: there is none of this name.
std::optional<OptimizerKind> OptimizerKindOf(std::string_view name);
std::vector<std::string_view> OptimizerNames();
// The configuration with every field set: what is not set gets its kind's value from the table above.
OptimizerConfig Resolved(OptimizerConfig config);
bool ReadsMomentum(OptimizerKind kind);
// Empty when sound; else which field has which value, and what it accepts.
std::string InvalidReason(const OptimizerConfig& config);

// The arithmetic. Immutable and thread-safe. The result for an element does not depend on how elements are
// cut into calls; where it depends on the whole array (needs_norms), Measure has seen all of it before.
class Optimizer {
 public:
  // Throws Error(kInvalidArgument) with InvalidReason's text.
  static std::unique_ptr<const Optimizer> Create(const OptimizerConfig& config);
  virtual ~Optimizer() = default;

  // Sums of squares over an array.
  struct Norms {
    double weight = 0;
    double direction = 0;
  };
  struct Step {
    int64_t num_update = 1;  // of this key, from 1
    // Schedules count steps of all workers together. Async: each worker's push of a step is an update.
    int64_t updates_per_step = 1;
    double lr_mult = 1;
    double wd_mult = 1;
    double grad_scale = 1;  // 1 / divisor or 1 / samples
    Norms norms;            // of the whole array, where needs_norms
  };

  const OptimizerConfig& config() const { return config_; }  // Resolved
  // State arrays beside the weight, each of its size, zero at first.
  virtual std::span<const std::string_view> slot_names() const = 0;
  size_t num_slots() const { return slot_names().size(); }
  double LearningRate(int64_t t) const;  // without lr_mult

  // new_weight may be weight; slots[i] is updated in place. 16-bit weights come through float. Where
  // needs_norms the states are Measure's, and the gradient is not read.
  virtual void Update(const Step& step, const float* weight, float* new_weight, const float* gradient,
                      float* const* slots, size_t n) const = 0;
  virtual void Update(const Step& step, const double* weight, double* new_weight, const double* gradient,
                      double* const* slots, size_t n) const = 0;

  // Whether an update scales by norms over the whole array. Then each update of it is two passes: Measure
  // over all elements in order, which updates the states and adds to `norms`, and Update with these. The sums
  // are the same to the last bit however the array is cut at multiples of kMeasured elements.
  virtual bool needs_norms() const { return false; }
  virtual void Measure(const Step&, const float* /*weight*/, const float* /*gradient*/,
                       float* const* /*slots*/, size_t /*n*/, Norms* /*norms*/) const {}
  virtual void Measure(const Step&, const double* /*weight*/, const double* /*gradient*/,
                       double* const* /*slots*/, size_t /*n*/, Norms* /*norms*/) const {}
  static constexpr size_t kMeasured = 64;

 protected:
  explicit Optimizer(const OptimizerConfig& config) : config_(Resolved(config)) {}
  const OptimizerConfig config_;
};

}  // namespace sluice

// Optimisers: plain configurations, which are sent to where the weights are, and the arithmetic that is done
// there.
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
//                (McMahan et al. 2013; lr = 0 changes nothing; z first becomes one that stands for w where w
//                was written or lr has changed)
//   lamb         m, v as adamw's;  r = (m / (1 - b1^u)) / (sqrt(v / (1 - b2^u)) + eps) + D * w;
//                w -= lr * q * r,  q = bound(|w|) / |r| with 2-norms over the key's whole array, 1 where a
//                norm is 0   (You et al. 2020, algorithm 2)
//   delayed_nag  s = s + lr * g;  w -= lr * g;  at each last update of a step of all workers (u divisible by
//                updates_per_step) also v = momentum * v - s;  w += momentum * v;  s = 0
//                (Liu et al. 2024, arXiv 2401.09135, algorithm 3 with c = 0; nag where a step is one update)
//   signum       s = momentum * s + (1 - momentum) g;  w -= lr * (sign(s) + wd_lh * wd_mult * w)
//                (Bernstein et al. 2018; without momentum signSGD)
// clip limits each element to [-clip_gradient, clip_gradient] when clip_gradient > 0. See also
// docs/design/optimizers.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
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
  kSignum,
  kDelayedNag
};
enum class LrScheduleKind : uint8_t { kConstant, kFactor, kMultiFactor, kPoly, kCosine };
enum class WarmupMode : uint8_t { kLinear, kConstant };

// The learning rate as a function of t, the number of steps of all workers together, from 1. In async stores,
// where a step of n workers is n updates, t grows with every n-th update. The formulas are those of MXNet's
// lr_scheduler.
struct LrSchedule {
  LrScheduleKind kind = LrScheduleKind::kConstant;
  double factor = 1;             // factor, multi_factor: by which the rate is multiplied
  int64_t step = 1;              // factor: the rate changes after every `step` steps
  double stop_factor_lr = 1e-8;  // factor: the lowest rate
  std::vector<int64_t> steps;    // multi_factor: the rate changes after each of these, ascending; 0: at once
  int64_t max_update = 1;        // poly, cosine: the step at which final_lr is reached
  double final_lr = 0;
  double power = 2;          // poly
  int64_t warmup_steps = 0;  // all kinds: steps in which the rate rises from warmup_begin_lr to the base rate
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::kLinear;
  bool operator==(const LrSchedule&) const = default;
};

struct LrWdMultiplier {
  double lr_mult = 1;
  double wd_mult = 1;
  bool operator==(const LrWdMultiplier&) const = default;
};

// The value of a learning rate, momentum or epsilon that is not set; Resolved replaces it by the default of
// the kind. It is below 0, so that a value computed from it, such as kUnset * 8, is below 0 as well and is
// refused.
inline constexpr double kUnset = -0x1p-1000;

// Fields that are not set take the defaults of the kind, which are those of MXNet 2.0 (in async stores of
// several workers those of ResolvedForAsync):
//                       learning_rate  momentum  epsilon
//   sgd                      0.1          0         -
//   nag                      0.1          0.9       -
//   adam                     0.001        -         1e-8
//   adamw, lamb              0.001        -         1e-6
//   adagrad                  0.01         -         1e-6
//   rmsprop                  0.001        0.9       1e-8
//   ftrl                     0.1          -         -
//   signum                   0.01         0.9       -
//   delayed_nag              0.1          0.9       -
struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kSgd;
  double learning_rate = kUnset;
  double momentum = kUnset;  // sgd, nag, rmsprop, signum, delayed_nag
  double wd = 0;
  double clip_gradient = 0;  // <= 0: off
  double rescale_grad = 1;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = kUnset;
  double rho = 0.9;        // rmsprop: decay of the averages
  bool centered = false;   // rmsprop: divides by the variance in place of the mean square
  double lambda1 = 0.01;   // ftrl: L1 regularisation
  double beta = 1;         // ftrl: the larger, the slower the first updates
  double lower_bound = 0;  // lamb: lower bound of the weight's norm
  double upper_bound = 0;  // lamb: upper bound of the weight's norm; 0: none
  double wd_lh = 0;        // signum: decoupled weight decay
  // Keeps a float32 master of each float16 or bfloat16 weight in the states and rounds the weight from it, so
  // that updates too small for 16 bits add up. It has no effect on weights of other types.
  bool multi_precision = false;
  LrSchedule schedule;
  bool normalize_by_samples = false;  // divides by the round's samples in place of the push's divisor
  std::map<std::string, LrWdMultiplier> multipliers;  // by key; integer keys in decimal
  bool operator==(const OptimizerConfig&) const = default;
};

std::string_view Name(OptimizerKind kind);  // "sgd"
// Returns the kind of this name, or nullopt if there is none.
std::optional<OptimizerKind> OptimizerKindOf(std::string_view name);
std::vector<std::string_view> OptimizerNames();
// Returns `config` with every unset field set to its kind's default from the table above.
OptimizerConfig Resolved(OptimizerConfig config);
// Does the same for an async store of so many workers. There each push moves the weights by a whole step,
// which was computed from weights that are as many pushes old as there are other workers. With several
// workers the momentum is 0, and the learning rate is the kind's times min(1, 3 / workers) for sgd and nag,
// and times min(1, 4 / workers) for other kinds that have one; delayed_nag, which is made for such stores,
// keeps both. KVStore::SetOptimizer and Trainer use it.
OptimizerConfig ResolvedForAsync(OptimizerConfig config, int workers);
// Returns why sgd or nag may diverge in an async store of so many workers, which is where
// learning_rate / (1 - momentum) is at least min(0.25, 0.5 / workers). Returns "" for other settings.
std::string DivergenceReason(const OptimizerConfig& config, int workers);
bool ReadsMomentum(OptimizerKind kind);
// Returns which field has which invalid value, and what it accepts; empty if the configuration is valid.
std::string InvalidReason(const OptimizerConfig& config);

// The arithmetic of an optimiser. Immutable and thread-safe. The result for an element does not depend on how
// elements are divided into calls. If it depends on the whole array (needs_norms), its norms are measured
// first.
class Optimizer {
 public:
  // Throws Error(kInvalidArgument) with InvalidReason's text.
  static std::unique_ptr<const Optimizer> Create(const OptimizerConfig& config);
  virtual ~Optimizer() = default;

  // Sums of squares over an array.
  struct Norms {
    double weight = 0;
    double direction = 0;
    bool operator==(const Norms&) const = default;
  };
  struct Step {
    int64_t num_update = 1;  // the number of this update of the key, from 1
    // Schedules count steps of all workers together; in async stores each worker's push of a step is an
    // update.
    int64_t updates_per_step = 1;
    double lr_mult = 1;
    double wd_mult = 1;
    double grad_scale = 1;  // 1 / divisor or 1 / samples
    // The significant bits of weights where they are stored, 11 for float16 and 8 for bfloat16; 0: as many as
    // they are passed with.
    int weight_bits = 0;
    Norms norms;  // the whole array's, if needs_norms()
    bool operator==(const Step&) const = default;
  };

  const OptimizerConfig& config() const { return config_; }  // as Resolved() returns it
  // The names of the state arrays beside the weight. Each has the weight's size and begins with zeros.
  virtual std::span<const std::string_view> slot_names() const = 0;
  size_t num_slots() const { return slot_names().size(); }
  double LearningRate(int64_t t) const;  // without lr_mult

  // One update of an array, with the factors that all elements share. It is called for the array's blocks and
  // does not refer to its optimiser. Two arrays may be the same, but may not overlap at different elements;
  // slots[i] is updated in place. 16-bit weights are passed as float.
  template <typename T>
  class PreparedUpdate {
   public:
    // Writes the updated weight to `new_weight`, which may be `weight`. If needs_norms(), Measure has updated
    // the states, and the gradient is not read.
    void operator()(const T* weight, T* new_weight, const T* gradient, T* const* slots, size_t n) const {
      update_(formula_, weight, new_weight, gradient, slots, n);
    }
    // Updates the states and adds to `norms`. Does nothing unless needs_norms().
    void Measure(const T* weight, const T* gradient, T* const* slots, size_t n, Norms* norms) const {
      if (measure_ != nullptr) measure_(formula_, weight, gradient, slots, n, norms);
    }

    using UpdateLoop = void(const void* formula, const T*, T*, const T*, T* const*, size_t);
    using MeasureLoop = void(const void* formula, const T*, const T*, T* const*, size_t, Norms*);
    template <typename Formula>
    PreparedUpdate(const Formula& formula, UpdateLoop* update, MeasureLoop* measure)
        : update_(update), measure_(measure) {
      static_assert(std::is_trivially_copyable_v<Formula> && sizeof(Formula) <= sizeof(formula_));
      ::new (static_cast<void*>(formula_)) Formula(formula);
    }

   private:
    alignas(T) std::byte formula_[16 * sizeof(T)];
    UpdateLoop* update_;
    MeasureLoop* measure_;
  };
  // Computes the factors of an update, once for all blocks of an array. T is float or double.
  template <typename T>
  PreparedUpdate<T> PrepareUpdate(const Step& step) const {
    if constexpr (std::is_same_v<T, float>) {
      return PrepareFloat(step);
    } else {
      return PrepareDouble(step);
    }
  }

  // Returns whether an update scales by norms over the whole array. Such an update takes two passes, each
  // with a PreparedUpdate of its own: Measure, over all elements in order, adds to `norms`; the second one's
  // step has these norms. The sums are bit-identical for every division of the array at multiples of
  // kMeasured elements.
  virtual bool needs_norms() const { return false; }
  static constexpr size_t kMeasured = 64;

 protected:
  explicit Optimizer(const OptimizerConfig& config) : config_(Resolved(config)) {}
  virtual PreparedUpdate<float> PrepareFloat(const Step& step) const = 0;
  virtual PreparedUpdate<double> PrepareDouble(const Step& step) const = 0;
  const OptimizerConfig config_;
};

}  // namespace sluice

#include "kvstore/update/update.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/strings.h"
#include "kvstore/update/sum.h"
#include "tensor/types/half.h"

namespace sluice::kvstore {
namespace {

constexpr size_t kBlock =
    2048;  // elements: gradient, weight and states of a block stay in the first-level cache

Optimizer::Step StepOf(const Optimizer& optimizer, const UpdateInput& input) {
  Optimizer::Step step;
  step.num_update = input.num_update;
  step.updates_per_step = input.updates_per_step;
  step.grad_scale = input.scale;
  const auto& multipliers = optimizer.config().multipliers;
  if (const auto it = multipliers.find(wire::ToString(input.spec->name)); it != multipliers.end()) {
    step.lr_mult = it->second.lr_mult;
    step.wd_mult = it->second.wd_mult;
  }
  return step;
}

// Between stored elements and the type that computes.
template <typename Compute>
void Load(DType dtype, const std::byte* from, size_t first, size_t n, Compute* to) {
  if constexpr (std::is_same_v<Compute, float>) {
    if (dtype == DType::kFloat16) return HalfToFloat(from + first * 2, to, n);
    if (dtype == DType::kBFloat16) return BFloat16ToFloat(from + first * 2, to, n);
  }
  std::memcpy(to, from + first * sizeof(Compute), n * sizeof(Compute));
}

template <typename Compute>
void Save(DType dtype, const Compute* from, size_t first, size_t n, std::byte* to) {
  if constexpr (std::is_same_v<Compute, float>) {
    if (dtype == DType::kFloat16) return FloatToHalf(from, to + first * 2, n);
    if (dtype == DType::kBFloat16) return FloatToBFloat16(from, to + first * 2, n);
  }
  std::memcpy(to + first * sizeof(Compute), from, n * sizeof(Compute));
}

void Sum(DType dtype, std::span<const std::byte* const> sources, size_t first, size_t n, float* out) {
  SumBlock(dtype, sources, first, n, out);
}
void Sum(DType, std::span<const std::byte* const> sources, size_t first, size_t n, double* out) {
  SumBlock(sources, first, n, out);
}

template <typename Compute>
void Scale(Compute* values, size_t n, double scale) {
  if (scale == 1) return;
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<Compute>(values[i] * scale);
}

template <typename Compute>
void UpdateFloating(const UpdateRule& rule, const UpdateInput& in, const std::byte* weight,
                    std::byte* new_weight, std::span<const std::shared_ptr<Buffer>> slots) {
  const DType dtype = in.spec->dtype;
  const bool stored_as_computed = SizeOf(dtype) == sizeof(Compute);
  const Optimizer::Step step = rule.optimizer ? StepOf(*rule.optimizer, in) : Optimizer::Step{};
  alignas(64) Compute gradient[kBlock], values[kBlock];
  std::vector<Compute*> states(slots.size());
  for (size_t first = 0; first < in.length; first += kBlock) {
    const size_t n = std::min(kBlock, in.length - first);
    Sum(dtype, in.gradients, first, n, gradient);
    for (size_t s = 0; s < slots.size(); ++s) states[s] = slots[s]->as<Compute>() + first;
    if constexpr (std::is_same_v<Compute, float>) {
      if (rule.updater) {
        Scale(gradient, n, in.scale);
        Load(dtype, weight, first, n, values);
        rule.updater({.key = wire::ToString(in.spec->name),
                      .offset = in.offset + static_cast<int64_t>(first),
                      .round = in.round,
                      .samples = in.samples,
                      .dtype = dtype},
                     std::span<const float>(gradient, n), std::span<float>(values, n));
        Save(dtype, values, first, n, new_weight);
        continue;
      }
    }
    if (!rule.optimizer) {
      Scale(gradient, n, in.scale);
      Save(dtype, gradient, first, n, new_weight);
    } else if (stored_as_computed) {
      rule.optimizer->Update(step, reinterpret_cast<const Compute*>(weight) + first,
                             reinterpret_cast<Compute*>(new_weight) + first, gradient, states.data(), n);
    } else {
      Load(dtype, weight, first, n, values);
      rule.optimizer->Update(step, values, values, gradient, states.data(), n);
      Save(dtype, values, first, n, new_weight);
    }
  }
}

// Whole numbers know assign and accumulate; CheckRule refuses the rest.
template <typename Int>
void UpdateIntegral(const UpdateRule& rule, const UpdateInput& in, const std::byte* weight,
                    std::byte* new_weight) {
  const auto factor = rule.optimizer ? static_cast<int64_t>(rule.optimizer->config().rescale_grad) : 0;
  Int sum[kBlock];
  const auto* old = reinterpret_cast<const Int*>(weight);
  auto* fresh = reinterpret_cast<Int*>(new_weight);
  for (size_t first = 0; first < in.length; first += kBlock) {
    const size_t n = std::min(kBlock, in.length - first);
    SumBlock(in.gradients, first, n, sum);
    for (size_t i = 0; i < n; ++i) {
      const auto added = static_cast<uint64_t>(factor) * static_cast<uint64_t>(sum[i]) +
                         static_cast<uint64_t>(old[first + i]);
      fresh[first + i] = rule.optimizer ? static_cast<Int>(added) : sum[i];
    }
  }
}

}  // namespace

Status CheckRule(const UpdateRule& rule, const wire::KeySpec& spec) {
  const auto refuse = [&](const auto&... why) {
    return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(spec.name), " is ", Name(spec.dtype),
                ": ", why...);
  };
  if (rule.updater && (!IsFloating(spec.dtype) || spec.dtype == DType::kFloat64)) {
    return refuse("this server's updater takes float32, float16 and bfloat16 keys only");
  }
  if (rule.updater || !rule.optimizer || IsFloating(spec.dtype)) return Status::Ok();
  const OptimizerConfig& config = rule.optimizer->config();
  if (config.kind != OptimizerKind::kAccumulate)
    return refuse("optimiser ", Name(config.kind), " needs a floating point key");
  if (config.rescale_grad != std::nearbyint(config.rescale_grad) || std::abs(config.rescale_grad) > 0x1p52 ||
      config.normalize_by_samples) {
    return refuse("accumulate needs a whole rescale_grad without normalize_by_samples there, not ",
                  config.rescale_grad);
  }
  return Status::Ok();
}

void UpdatePart(const UpdateRule& rule, const UpdateInput& input, const std::byte* weight,
                std::byte* new_weight, std::span<const std::shared_ptr<Buffer>> slots) {
  switch (input.spec->dtype) {
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
      return UpdateFloating<float>(rule, input, weight, new_weight, slots);
    case DType::kFloat64:
      return UpdateFloating<double>(rule, input, weight, new_weight, slots);
    case DType::kInt32:
      return UpdateIntegral<int32_t>(rule, input, weight, new_weight);
    case DType::kInt64:
      return UpdateIntegral<int64_t>(rule, input, weight, new_weight);
    case DType::kUInt8:
      return UpdateIntegral<uint8_t>(rule, input, weight, new_weight);
  }
}

}  // namespace sluice::kvstore

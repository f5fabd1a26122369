// The arithmetic of an update, block by block: sum or copy the gradient, scale it, run the optimiser or the
// updater, write the weight.
//
// Blocks convert between stored elements and the type that computes: float for 16-bit and 32-bit floats,
// double for float64; integers are computed as they are. There is no state between calls. A shard's thread,
// its helpers (ranges of one part in parallel) and, for local stores and Trainers that update, the threads of
// a cpu context call it.
#include "kvstore/update/update.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/inline_vector.h"
#include "base/non_temporal_copy.h"
#include "base/strings.h"
#include "kvstore/update/sum.h"
#include "tensor/types/half.h"

namespace sluice::kvstore {
namespace {

// Elements of a block: its gradient, weight and states stay in the first-level cache.
constexpr size_t kBlock = 2048;
// The block size when the weight is written with non-temporal stores. While such a
// block is written, the processor does not prefetch the next one by itself; blocks
// are short so that the next one can be fetched whole before (Blocks::FetchNext).
constexpr size_t kNonTemporalBlock = 256;
static_assert(kBlock % compression::kAligned == 0 && kNonTemporalBlock % compression::kAligned == 0);

// Load and Save convert between stored elements and the type that computes.
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

void FetchLines(const void* from, size_t size) {
  for (size_t done = 0; done < size; done += 64)
    __builtin_prefetch(static_cast<const std::byte*>(from) + done);
}

void Sum(DType dtype, std::span<const Encoded> sources, size_t first, size_t n, float* out) {
  SumBlock(dtype, sources, first, n, out);
}
void Sum(DType, std::span<const Encoded> sources, size_t first, size_t n, double* out) {
  SumBlock(sources, first, n, out);
}

template <typename Compute>
void Scale(Compute* values, size_t n, double scale) {
  if (scale == 1) return;
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<Compute>(values[i] * scale);
}

// A master replaces its weight as long as it rounds to it. Elements of the master that do
// not, because the weight was set since or the master is new, are replaced by the weight's.
void FollowWeight(DType dtype, const std::byte* weight, size_t first, size_t n, float* master) {
  std::byte rounded[2 * kBlock];
  Save(dtype, master, 0, n, rounded);
  const std::byte* stored = weight + 2 * first;
  if (std::memcmp(rounded, stored, 2 * n) == 0) return;
  float values[kBlock];
  Load(dtype, weight, first, n, values);
  for (size_t i = 0; i < n; ++i) {
    if (std::memcmp(rounded + 2 * i, stored + 2 * i, 2) != 0) master[i] = values[i];
  }
}

// The arrays that an optimiser computes with, block by block.
template <typename Compute>
class Blocks {
 public:
  Blocks(const UpdateRule& rule, const UpdateInput& in, std::span<const std::shared_ptr<Buffer>> slots)
      : dtype_(in.spec->dtype),
        non_temporal_(in.non_temporal && !rule.updater && stored_as_computed()),
        reads_weight_(rule.optimizer != nullptr),
        reads_gradients_(!rule.needs_norms()),
        slots_(slots) {
    for (size_t s = 0; s < slots.size(); ++s) states_.push_back(nullptr);
    const bool optimizes = rule.optimizer && !rule.updater;
    if (std::is_same_v<Compute, float> && optimizes && HasMaster(*rule.optimizer, dtype_))
      master_ = slots.back()->as<Compute>();
  }
  Compute* const* States(size_t first) {
    for (size_t s = 0; s < slots_.size(); ++s) states_[s] = slots_[s]->template as<Compute>() + first;
    return states_.data();
  }
  // The block's weight in the type that computes.
  const Compute* Weight(const std::byte* weight, size_t first, size_t n) {
    if constexpr (std::is_same_v<Compute, float>) {
      if (master_ != nullptr) {
        FollowWeight(dtype_, weight, first, n, master_ + first);
        return master_ + first;
      }
    }
    if (stored_as_computed()) return reinterpret_cast<const Compute*>(weight) + first;
    Load(dtype_, weight, first, n, values_);
    return values_;
  }
  // The memory for the block's new values; Store brings them to where the weight is kept.
  Compute* Target(std::byte* new_weight, size_t first) {
    if (master_ != nullptr) return master_ + first;
    return in_place() ? reinterpret_cast<Compute*>(new_weight) + first : values_;
  }
  void Store(const Compute* target, size_t first, size_t n, std::byte* new_weight) const {
    if (!in_place()) Write(target, first, n, new_weight);
  }
  // Writes values from other memory.
  void Write(const Compute* values, size_t first, size_t n, std::byte* new_weight) const {
    if (non_temporal_) {
      NonTemporalCopyPiece(new_weight + first * sizeof(Compute), reinterpret_cast<const std::byte*>(values),
                           n * sizeof(Compute));
    } else {
      Save(dtype_, values, first, n, new_weight);
    }
  }
  // The size of a block. It is always kBlock with an
  // updater, which receives the same blocks in every round.
  size_t size() const { return non_temporal_ ? kNonTemporalBlock : kBlock; }
  // Prefetches what the block from `first` on will read,
  // before the last block is written with non-temporal stores.
  void FetchNext(const UpdateInput& in, const std::byte* weight, size_t first, size_t end) {
    if (!non_temporal_ || first == end) return;
    const size_t n = std::min(size(), end - first), width = SizeOf(dtype_);
    if (reads_weight_) FetchLines(weight + first * width, n * width);
    for (Compute* const state : std::span(States(first), slots_.size()))
      FetchLines(state, n * sizeof(Compute));
    if (!reads_gradients_) return;
    if (in.summed != nullptr) FetchLines(in.summed + first * sizeof(Compute), n * sizeof(Compute));
    for (const Encoded& gradient : in.gradients)
      if (gradient.type == Compression::kNone) FetchLines(gradient.data + first * width, n * width);
  }
  // The summed gradient: in memory of its own, or as it was received
  // when there is nothing to sum. It is valid until the next call.
  const Compute* Gradient(const UpdateInput& in, size_t first, size_t n) {
    if (in.summed != nullptr) return reinterpret_cast<const Compute*>(in.summed) + first;
    const auto* only = reinterpret_cast<const Compute*>(in.gradients[0].data);
    const bool plain = in.gradients[0].type == Compression::kNone && stored_as_computed();
    const bool aligned = reinterpret_cast<uintptr_t>(only) % alignof(Compute) == 0;
    if (in.gradients.size() == 1 && plain && aligned) return only + first;
    return OwnGradient(in, first, n);
  }
  Compute* OwnGradient(const UpdateInput& in, size_t first, size_t n) {
    if (in.summed != nullptr) {
      std::memcpy(gradient_, in.summed + first * sizeof(Compute), n * sizeof(Compute));
    } else {
      Sum(dtype_, in.gradients, first, n, gradient_);
    }
    return gradient_;
  }

 private:
  bool stored_as_computed() const { return SizeOf(dtype_) == sizeof(Compute); }
  bool in_place() const { return master_ == nullptr && stored_as_computed() && !non_temporal_; }

  const DType dtype_;
  const bool non_temporal_;
  const bool reads_weight_, reads_gradients_;
  const std::span<const std::shared_ptr<Buffer>> slots_;
  InlineVector<Compute*, 4> states_;
  Compute* master_ = nullptr;
  alignas(64) Compute gradient_[kBlock], values_[kBlock];
};

// Calls the server's own update function; for 16-bit and 32-bit floats.
void CallUpdater(const UpdateRule& rule, const UpdateInput& in, const std::byte* weight,
                 std::byte* new_weight, float* gradient, size_t first, size_t n) {
  float values[kBlock];
  Scale(gradient, n, in.scale);
  Load(in.spec->dtype, weight, first, n, values);
  rule.updater({.key = wire::ToString(in.spec->name),
                .store = static_cast<int>(in.spec->store),
                .offset = in.offset + static_cast<int64_t>(first),
                .round = in.round,
                .samples = in.samples,
                .dtype = in.spec->dtype},
               std::span<const float>(gradient, n), std::span<float>(values, n));
  Save(in.spec->dtype, values, first, n, new_weight);
}

template <typename Compute>
void UpdateFloating(const UpdateRule& rule, const UpdateInput& in, const std::byte* weight,
                    std::byte* new_weight, std::span<const std::shared_ptr<Buffer>> slots, size_t begin,
                    size_t end) {
  std::optional<Optimizer::PreparedUpdate<Compute>> update;
  if (rule.optimizer) update = rule.optimizer->PrepareUpdate<Compute>(StepOf(*rule.optimizer, in));
  Blocks<Compute> blocks(rule, in, slots);
  for (size_t first = begin, n = 0; first < end; first += n) {
    n = std::min(blocks.size(), end - first);
    if constexpr (std::is_same_v<Compute, float>) {
      if (rule.updater) {
        CallUpdater(rule, in, weight, new_weight, blocks.OwnGradient(in, first, n), first, n);
        continue;
      }
    }
    if (!update) {
      Compute* sum = blocks.OwnGradient(in, first, n);
      Scale(sum, n, in.scale);
      blocks.FetchNext(in, weight, first + n, end);
      blocks.Write(sum, first, n, new_weight);
      continue;
    }
    const Compute* gradient = rule.needs_norms() ? nullptr : blocks.Gradient(in, first, n);
    const Compute* from = blocks.Weight(weight, first, n);
    Compute* to = blocks.Target(new_weight, first);
    (*update)(from, to, gradient, blocks.States(first), n);
    blocks.FetchNext(in, weight, first + n, end);
    blocks.Store(to, first, n, new_weight);
  }
  if (in.non_temporal) FinishNonTemporalCopies();
}

template <typename Compute>
void MeasureFloating(const UpdateRule& rule, const UpdateInput& in, const std::byte* weight,
                     std::span<const std::shared_ptr<Buffer>> slots, Optimizer::Norms* norms) {
  const auto update = rule.optimizer->PrepareUpdate<Compute>(StepOf(*rule.optimizer, in));
  Blocks<Compute> blocks(rule, in, slots);
  for (size_t first = 0; first < in.length; first += kBlock) {
    const size_t n = std::min(kBlock, in.length - first);
    const Compute* gradient = blocks.Gradient(in, first, n);
    update.Measure(blocks.Weight(weight, first, n), gradient, blocks.States(first), n, norms);
  }
}

// Integers can be assigned and accumulated; ValidateRule refuses all other rules.
template <typename Int>
void UpdateIntegral(const UpdateRule& rule, const UpdateInput& in, const std::byte* weight,
                    std::byte* new_weight, size_t begin, size_t end) {
  const auto factor = rule.optimizer ? static_cast<int64_t>(rule.optimizer->config().rescale_grad) : 0;
  Int sum[kBlock];
  const auto* old = reinterpret_cast<const Int*>(weight);
  auto* fresh = reinterpret_cast<Int*>(new_weight);
  for (size_t first = begin; first < end; first += kBlock) {
    const size_t n = std::min(kBlock, end - first);
    if (in.summed != nullptr) {
      std::memcpy(sum, in.summed + first * sizeof(Int), n * sizeof(Int));
    } else {
      SumBlock(in.gradients, first, n, sum);
    }
    for (size_t i = 0; i < n; ++i) {
      const auto added = static_cast<uint64_t>(factor) * static_cast<uint64_t>(sum[i]) +
                         static_cast<uint64_t>(old[first + i]);
      fresh[first + i] = rule.optimizer ? static_cast<Int>(added) : sum[i];
    }
  }
}

}  // namespace

Optimizer::Step StepOf(const Optimizer& optimizer, const UpdateInput& input) {
  Optimizer::Step step;
  step.num_update = input.num_update;
  step.updates_per_step = input.updates_per_step;
  step.grad_scale = input.scale;
  if (!optimizer.config().multi_precision)  // else weights are rounded from a master
    step.weight_bits = input.spec->dtype == DType::kFloat16    ? 11
                       : input.spec->dtype == DType::kBFloat16 ? 8
                                                               : 0;
  step.norms = input.norms;
  const auto& multipliers = optimizer.config().multipliers;
  const auto* text = std::get_if<std::string>(&input.spec->name);
  const auto it =
      text != nullptr ? multipliers.find(*text) : multipliers.find(wire::ToString(input.spec->name));
  if (it != multipliers.end()) {
    step.lr_mult = it->second.lr_mult;
    step.wd_mult = it->second.wd_mult;
  }
  return step;
}

Status ValidateRule(const UpdateRule& rule, const wire::KeySpec& spec) {
  const auto refuse = [&](const auto&... why) {
    return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(spec), " is ", Name(spec.dtype), ": ",
                why...);
  };
  if (rule.updater && (!IsFloating(spec.dtype) || spec.dtype == DType::kFloat64)) {
    return refuse("this server's updater takes float32, float16 and bfloat16 keys only");
  }
  if (spec.rows && rule.needs_norms()) {
    return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(spec), " is row-sparse, but optimiser ",
                Name(rule.optimizer->config().kind),
                " needs the norm of the whole array, which no round sees: choose another for this store");
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

Status ValidateRule(const UpdateRule& rule, const wire::KeyEntry& entry) {
  if (Status status = ValidateRule(rule, entry.spec); !status) return status;
  if (!rule.needs_norms() || entry.slices.size() <= 1) return Status::Ok();
  return Fail(ErrorCode::kInvalidArgument, "key ", wire::ToString(entry.spec), " of ",
              entry.spec.shape.size(), " elements is cut into ", entry.slices.size(),
              " slices, but optimiser ", Name(rule.optimizer->config().kind),
              " needs the norm of the whole array: set MXNET_KVSTORE_BIGARRAY_BOUND above that number of "
              "elements, so that one server thread has all of it, or let the workers update "
              "(update_on_kvstore = false)");
}

void UpdatePart(const UpdateRule& rule, const UpdateInput& input, const std::byte* weight,
                std::byte* new_weight, std::span<const std::shared_ptr<Buffer>> slots) {
  UpdateRange(rule, input, weight, new_weight, slots, 0, input.length);
}

void UpdateRange(const UpdateRule& rule, const UpdateInput& input, const std::byte* weight,
                 std::byte* new_weight, std::span<const std::shared_ptr<Buffer>> slots, size_t begin,
                 size_t end) {
  switch (input.spec->dtype) {
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
      return UpdateFloating<float>(rule, input, weight, new_weight, slots, begin, end);
    case DType::kFloat64:
      return UpdateFloating<double>(rule, input, weight, new_weight, slots, begin, end);
    case DType::kInt32:
      return UpdateIntegral<int32_t>(rule, input, weight, new_weight, begin, end);
    case DType::kInt64:
      return UpdateIntegral<int64_t>(rule, input, weight, new_weight, begin, end);
    case DType::kUInt8:
      return UpdateIntegral<uint8_t>(rule, input, weight, new_weight, begin, end);
  }
}

void MeasurePart(const UpdateRule& rule, const UpdateInput& input, const std::byte* weight,
                 std::span<const std::shared_ptr<Buffer>> slots, Optimizer::Norms* norms) {
  SLUICE_CHECK(rule.needs_norms() && IsFloating(input.spec->dtype));
  if (input.spec->dtype == DType::kFloat64) return MeasureFloating<double>(rule, input, weight, slots, norms);
  MeasureFloating<float>(rule, input, weight, slots, norms);
}

}  // namespace sluice::kvstore

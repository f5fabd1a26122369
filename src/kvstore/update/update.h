// The update of a part when its round closes: one pass over the part sums the gradients in rank
// order, scales the sum, updates the states and writes the new weight, block by block, so that
// intermediate results stay in the cache. Thread-safe for parts and ranges that do not overlap.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "compression/codec.h"
#include "kvstore/update/states.h"
#include "sluice/optimizer.h"
#include "sluice/updater.h"
#include "wire/messages.h"

namespace sluice::kvstore {

// How a key's weights change. Without optimiser and updater the sum is assigned.
struct UpdateRule {
  std::shared_ptr<const Optimizer> optimizer;
  ServerUpdater updater;  // has precedence over the optimiser
  // The sum is divided by the round's samples, in place of the divisors of the pushes.
  bool normalizes_by_samples() const {
    return optimizer && !updater && optimizer->config().normalize_by_samples;
  }
  // An update of a key first measures all of its parts (MeasurePart).
  bool needs_norms() const { return optimizer && !updater && optimizer->needs_norms(); }
};

// Fails with kInvalidArgument, naming both, when the rule cannot update keys of this dtype.
Status ValidateRule(const UpdateRule& rule, const wire::KeySpec& spec);
// The same, also considering the key's slices: a rule with norms needs the whole array on one shard.
Status ValidateRule(const UpdateRule& rule, const wire::KeyEntry& entry);

struct UpdateInput {
  const wire::KeySpec* spec = nullptr;
  int64_t offset = 0;                               // the part's first element within the key
  size_t length = 0;                                // elements
  std::span<const compression::Encoded> gradients;  // frames in rank order; none with `summed`
  // The sum of the gradients in place of these, aligned,
  // in the type that computes (float32 for 16-bit floats).
  const std::byte* summed = nullptr;
  double scale = 1;  // factor of the sum
  uint64_t samples = 0;
  uint64_t round = 0;
  int64_t num_update = 1;
  int64_t updates_per_step = 1;  // for Optimizer::Step: the updates of all workers in a step
  Optimizer::Norms norms;        // the whole key's norms, where the rule needs them
  // Writes new weights with non-temporal stores (base/non_temporal_copy.h);
  // only when they go to other memory than the old ones.
  bool non_temporal = false;
};

// Returns the step of an optimiser that `input` describes.
Optimizer::Step StepOf(const Optimizer& optimizer, const UpdateInput& input);

// Updates a part: reads `weight` and writes `new_weight`, which may be the same memory. `slots` are the
// arrays of FitStates: float, or double for float64 keys. A master that does not round to the weight,
// because the weight was set since or there has been no update yet, is first replaced by the weight.
void UpdatePart(const UpdateRule& rule, const UpdateInput& input, const std::byte* weight,
                std::byte* new_weight, std::span<const std::shared_ptr<Buffer>> slots);
// The same for elements [begin, end) of the part only.
// Ranges that do not overlap may be updated concurrently.
void UpdateRange(const UpdateRule& rule, const UpdateInput& input, const std::byte* weight,
                 std::byte* new_weight, std::span<const std::shared_ptr<Buffer>> slots, size_t begin,
                 size_t end);
// For rules with needs_norms(): call it for every part of the key, in order, before any of
// them is updated. It adds to `norms`, which the input of every part's update then carries.
void MeasurePart(const UpdateRule& rule, const UpdateInput& input, const std::byte* weight,
                 std::span<const std::shared_ptr<Buffer>> slots, Optimizer::Norms* norms);

// The largest number of updates that is accepted from outside: numbers up to it are exact as float64.
inline constexpr uint64_t kMaxUpdates = uint64_t{1} << 53;

}  // namespace sluice::kvstore

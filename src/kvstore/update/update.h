// Closing a round: one pass over a part that sums the gradients in rank order, scales, updates and writes the
// fresh weight, block by block so that what lies between stays in the cache.
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

// How a key's weights change. No optimiser and no updater: the sum is assigned.
struct UpdateRule {
  std::shared_ptr<const Optimizer> optimizer;
  ServerUpdater updater;  // wins over the optimiser
  // The round's samples divide, in place of what the pushes name.
  bool normalizes_by_samples() const {
    return optimizer && !updater && optimizer->config().normalize_by_samples;
  }
  // An update of a key measures all of its parts first.
  bool needs_norms() const { return optimizer && !updater && optimizer->needs_norms(); }
};

// Whether the rule can work on keys of this dtype; the failure names both.
Status ValidateRule(const UpdateRule& rule, const wire::KeySpec& spec);
// Likewise where the key lies: whoever updates by norms must have the whole array.
Status ValidateRule(const UpdateRule& rule, const wire::KeyEntry& entry);

struct UpdateInput {
  const wire::KeySpec* spec = nullptr;
  int64_t offset = 0;                               // of the part, in elements
  size_t length = 0;                                // elements
  std::span<const compression::Encoded> gradients;  // as they came, in rank order; empty: `summed`
  // In place of them, aligned: their sum, in the type that computes (16-bit floats: float32).
  const std::byte* summed = nullptr;
  double scale = 1;  // of their sum
  uint64_t samples = 0;
  uint64_t round = 0;
  int64_t num_update = 1;
  int64_t updates_per_step = 1;  // of all workers: Optimizer::Step
  Optimizer::Norms norms;        // of the whole key, where the rule needs them
  // New weights in other memory than the old go around the caches (base/non_temporal_copy.h).
  bool non_temporal = false;
};

// Reads `weight`, writes `new_weight` (may be the same memory); `slots` are the arrays of FitStates: float,
// or double for float64 keys. A master that does not round to the weight, because the weight was set since or
// no update has been, becomes the weight.
void UpdatePart(const UpdateRule& rule, const UpdateInput& input, const std::byte* weight,
                std::byte* new_weight, std::span<const std::shared_ptr<Buffer>> slots);
// The same for elements [begin, end) of the part alone; ranges that do not meet may be updated at once.
void UpdateRange(const UpdateRule& rule, const UpdateInput& input, const std::byte* weight,
                 std::byte* new_weight, std::span<const std::shared_ptr<Buffer>> slots, size_t begin,
                 size_t end);
// Where rule.needs_norms(): goes over every part of the key, in order, before any is updated; adds to
// `norms`, which every part's input then carries.
void MeasurePart(const UpdateRule& rule, const UpdateInput& input, const std::byte* weight,
                 std::span<const std::shared_ptr<Buffer>> slots, Optimizer::Norms* norms);

// What a number of updates that comes from outside may be: all of them are exact as float64.
inline constexpr uint64_t kMaxUpdates = uint64_t{1} << 53;

}  // namespace sluice::kvstore

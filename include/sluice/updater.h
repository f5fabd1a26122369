// The update function of a custom server program (sluice/server.h), which gets weights as plain memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "sluice/dtype.h"

namespace sluice {

// Describes the elements of one call.
struct UpdateContext {
  std::string key;       // the key's name, as workers gave it; a number in decimal
  int store = 0;         // the number of the key's store among a worker's dist stores, in order of creation
  int64_t offset = 0;    // position of the first element within the key
  uint64_t round = 0;    // the round that closes (dist_sync) or the number of the push (dist_async), from 1
  uint64_t samples = 0;  // sum of the sample counts of the pushes
  DType dtype = DType::kFloat32;  // the type of the key; the spans are float32 for each type
};

// Updates a block of a key's elements. `gradient` is the sum over the workers, divided by the divisor of the
// push; the sum is taken in rank order, and exactly for more than 32 workers. The function changes `weight`
// in place. A key is cut into the same blocks in every round, and the same thread always passes the same
// block; the rows of row-sparse keys are passed one by one. Other threads may pass other blocks, also of the
// same key, at the same time. The function must not throw and must not keep the spans. Init refuses keys that
// are not float32, float16 or bfloat16.
using ServerUpdater = std::function<void(const UpdateContext& context, std::span<const float> gradient,
                                         std::span<float> weight)>;

}  // namespace sluice

// An update function of one's own, where the weights are plain memory: in a server program (sluice/server.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "sluice/dtype.h"

namespace sluice {

// Where the elements of one call lie.
struct UpdateContext {
  std::string key;       // as the worker named it
  int store = 0;         // which of the worker's dist stores named it, in the order they were made
  int64_t offset = 0;    // of the first element, within the key
  uint64_t round = 0;    // the round that closes (dist_sync) or the number of the push (dist_async), from 1
  uint64_t samples = 0;  // sum of the sample counts of the pushes
  DType dtype = DType::kFloat32;  // as stored; spans are float32 for 16-bit and 32-bit floats
};

// Called with a block of a key's elements: the gradient summed in rank order (of more than 32 workers:
// exactly) and divided by the push's divisor, and the weight to change in place. A key is cut into the same
// blocks every round, and a block always comes from the same thread (rows of row-sparse keys come one by
// one); other blocks, also of the same key, may come from other threads at that time. Must not throw, must
// not keep the spans. Keys that are not float32, float16 or bfloat16 are refused at Init.
using ServerUpdater = std::function<void(const UpdateContext& context, std::span<const float> gradient,
                                         std::span<float> weight)>;

}  // namespace sluice

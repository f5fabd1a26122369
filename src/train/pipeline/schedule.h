// The order in which a pipeline's stages work.
#pragma once

#include <cstddef>
#include <vector>

namespace sluice::train {

struct PipelineStep {
  enum class Direction : unsigned char { kForward, kBackward };
  size_t stage, micro_batch;
  Direction direction;
  bool operator==(const PipelineStep&) const = default;
};

// Returns every step of every stage once, each after those that it needs. The steps of one stage are in the
// order 1F1B: forward until stages - stage micro-batches are under way, then backward and forward in turn.
std::vector<PipelineStep> OneForwardOneBackward(size_t stages, size_t micro_batches);

}  // namespace sluice::train

// That the workers of a job were told the same. Internal to train/.
#pragma once

#include "sluice/fit.h"
#include "sluice/kvstore.h"

namespace sluice::train {

// Of workers that meet after the same steps: what says which steps there are and when they meet. A barrier of
// all; throws Error(kInvalidArgument) with the first thing that this worker was told otherwise than rank 0.
void RequireSameRun(const FitOptions& options, const Batching& batching, KVStore& store);

}  // namespace sluice::train

// The optimiser that the flags describe.
#pragma once

#include "sluice/checkpoint.h"
#include "sluice/data.h"
#include "sluice/optimizer.h"

namespace sluice::examples {

// Its schedule counts on from where the run begins. Throws Error(kInvalidArgument) for flags that it does not
// take.
OptimizerConfig MakeOptimizer(const LoadedCheckpoint& start, const SamplerConfig& sampler, int workers);

// To standard error: settings that are known to learn nothing.
void WarnOfOptimizer();

}  // namespace sluice::examples

// The optimiser that the flags describe.
#pragma once

#include <map>
#include <set>
#include <string>

#include "sluice/checkpoint.h"
#include "sluice/data.h"
#include "sluice/optimizer.h"

namespace sluice::examples {

// Where --lr says nothing, the rate is that of `rates` (Program), else the optimiser's own; async stores take
// one that converges for so many workers. The schedule counts on from where the run begins. Throws
// Error(kInvalidArgument) for flags that it does not take.
OptimizerConfig MakeOptimizer(const std::map<std::string, double>& rates, const LoadedCheckpoint& start,
                              const SamplerConfig& sampler, int workers);

// To standard error: settings that are known to learn nothing. `unfit`: of Program.
void WarnOfOptimizer(const OptimizerConfig& optimizer, const std::set<std::string>& unfit, int workers);

// "sgd, learning rate 0.05, momentum 0.9"
std::string Describe(const OptimizerConfig& optimizer);

}  // namespace sluice::examples

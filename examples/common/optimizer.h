// The optimiser that the command-line flags describe.
#pragma once

#include <map>
#include <set>
#include <string>

#include "sluice/checkpoint.h"
#include "sluice/data.h"
#include "sluice/optimizer.h"

namespace sluice::examples {

// Returns the configuration for the flags. If --lr is empty, the learning rate is that of `rates`
// (Program::rates), else the optimiser's default; with an async store it is scaled so that `workers` workers
// converge. The steps of the learning-rate schedule count from the position and the optimiser states of
// `start`. Throws Error(kInvalidArgument) if a flag has a value that the optimiser does not take.
OptimizerConfig MakeOptimizer(const std::map<std::string, double>& rates, const LoadedCheckpoint& start,
                              const SamplerConfig& sampler, int workers);

// Prints a warning to standard error for an optimiser that is known to learn nothing: one of `unfit`, which
// is Program::unfit.
void WarnOfOptimizer(const std::set<std::string>& unfit);

// Returns a text such as "sgd, learning rate 0.05, momentum 0.9".
std::string Describe(const OptimizerConfig& optimizer);

}  // namespace sluice::examples

// Checks that all workers of a job were started with the same options. Internal to train/ and the example
// programs.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/fit.h"
#include "sluice/kvstore.h"

namespace sluice::train {

// What must be the same on all workers: pairs of a name and a text of one line.
using Traits = std::vector<std::pair<std::string, std::string>>;

// Compares `traits` with those of rank 0; it is a barrier of all workers. Throws Error(kInvalidArgument),
// whose message begins with `who` and names the first trait that differs, on each worker where one does.
void RequireAlike(std::string_view who, const Traits& traits, KVStore& store);

// Requires, by RequireAlike, that all workers take shares of the same batches, have the same optimiser
// and, if they meet at barriers, meet after the same steps. `more` is compared, too.
void RequireSameRun(const FitOptions& options, const OptimizerConfig& optimizer, const Batching& batching,
                    const Traits& more, KVStore& store);

}  // namespace sluice::train

// That the workers of a job were told the same. Internal to train/ and the example programs.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/fit.h"
#include "sluice/kvstore.h"

namespace sluice::train {

// What must be the same on all workers: names and texts of one line.
using Traits = std::vector<std::pair<std::string, std::string>>;

// A barrier of all workers. Throws Error(kInvalidArgument), which `who` begins, with the first of `traits`
// that is another than rank 0's.
void RequireAlike(std::string_view who, const Traits& traits, KVStore& store);

// That all take shares of the same batches with one optimiser and, where they meet after steps, meet after
// the same ones.
// `more` is compared, too.
void RequireSameRun(const FitOptions& options, const OptimizerConfig& optimizer, const Batching& batching,
                    const Traits& more, KVStore& store);

}  // namespace sluice::train

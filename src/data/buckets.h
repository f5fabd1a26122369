// The buckets of samples (Dataset::Bucket), for the DataLoader and for the comparison of workers.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/dataset.h"

namespace sluice {

// Returns the bucket of every sample, or nothing if they have none. Throws Error(kInvalidArgument) for a
// bucket that the samples do not have, and if some samples have one and others none.
std::vector<int64_t> BucketsOf(const Dataset& dataset);

// Returns the shape of a sample or its label, cut to `steps` if it has as many steps as samples have. 0: not
// cut.
Shape CutTo(const Shape& shape, const Shape& sample, int64_t steps);

}  // namespace sluice

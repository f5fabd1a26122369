// Data sets made up from a seed, for machines without any download. A sample is a function of (seed, subset,
// index) alone, its class included.
#pragma once

#include <cstdint>
#include <memory>

#include "sluice/dataset.h"

namespace sluice {

// All take count < 0 for the subset's default and throw Error(kInvalidArgument) for count 0.

// Ten classes of hand-drawn digits, [1, 28, 28]. A linear model stays below 93 % on the test set.
inline constexpr int64_t kDefaultTrainDigits = 20'000;
inline constexpr int64_t kDefaultTestDigits = 4'000;
std::shared_ptr<const ImageDataset> SyntheticDigits(Subset subset, uint64_t seed = 0, int64_t count = -1);

}  // namespace sluice

// A file of each context's own statistics (BatchNorm's running mean and variance). A parameters file has only
// their mean over the contexts.
#pragma once

#include <string>

#include "sluice/parameter.h"

namespace sluice::train {

// Writes the statistics to `path` if they differ between contexts; else writes nothing.
void SaveStatistics(const std::string& path, const nn::ParameterDict& parameters);
// Gives every context its own statistics if there are as many contexts as in the file; otherwise all
// keep what they have. Throws Error(kDataLoss), naming file and entry, when one is missing or has
// another shape or type.
void LoadStatistics(const std::string& path, const nn::ParameterDict& parameters);

}  // namespace sluice::train

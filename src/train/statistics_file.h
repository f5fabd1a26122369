// Each context's own statistics (BatchNorm's running mean and variance), of which a parameters file has the
// mean.
#pragma once

#include <string>

#include "sluice/parameter.h"

namespace sluice::train {

// Writes them to `path` where contexts differ in any; else writes nothing.
void SaveStatistics(const std::string& path, const nn::ParameterDict& parameters);
// Where there are as many contexts as there were, each gets its own; else all keep what they have. Throws
// Error naming file and parameter when one is missing or has another shape or type.
void LoadStatistics(const std::string& path, const nn::ParameterDict& parameters);

}  // namespace sluice::train

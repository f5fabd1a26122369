// A model's parameters on disk, as safetensors: other tools read them.
#pragma once

#include <string>

#include "sluice/parameter.h"

namespace sluice {

// Written under a temporary name, then renamed. The parameters must be initialised.
void SaveParameters(const std::string& path, const nn::ParameterDict& parameters);
// Every parameter must be in the file with its shape and dtype, and nothing else: Error names the file, the
// parameter, and both. Fills in deferred shapes; the parameters must have been initialised on their contexts
// (Initialize may be deferred).
void LoadParameters(const std::string& path, const nn::ParameterDict& parameters);

}  // namespace sluice

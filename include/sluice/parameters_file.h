// A model's parameters on disk, as safetensors: other tools read them.
#pragma once

#include <map>
#include <string>

#include "sluice/parameter.h"

namespace sluice {

using FileMetadata = std::map<std::string, std::string>;

// Written under a temporary name, then renamed. The parameters must be initialised. Statistics, which differ
// by context, are written as their mean over the contexts. `metadata` goes into the file beside its format.
void SaveParameters(const std::string& path, const nn::ParameterDict& parameters, FileMetadata metadata = {});

struct LoadParametersOptions {
  bool cast_dtype = true;  // false: another type in the file is an error
};
// Every parameter must be in the file with its shape, and nothing else: Error names the file, the parameter,
// and both. Floating types are converted to the parameter's, to the nearest value and of two to the even one;
// what is beyond the type's range becomes infinite. Fills in deferred shapes; the parameters must have been
// initialised on their contexts (Initialize may be deferred). Returns the file's metadata.
FileMetadata LoadParameters(const std::string& path, const nn::ParameterDict& parameters,
                            const LoadParametersOptions& options = {});
// Of a file of parameters, before there is a model to load them into.
FileMetadata ReadFileMetadata(const std::string& path);

}  // namespace sluice

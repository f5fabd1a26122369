// The parameters of a model on disk, as safetensors files, which other tools can read.
#pragma once

#include <map>
#include <string>

#include "sluice/parameter.h"

namespace sluice {

using FileMetadata = std::map<std::string, std::string>;

// Writes the parameters, which must be initialised, to a temporary file and then renames it to `path`.
// Statistics, which differ between contexts, are written as their mean over the contexts. The file's metadata
// are `metadata` and an entry for the format. Parameters with row-sparse gradients are fetched first
// (ParameterRows::FetchAll), so that while their Trainer lives this waits for its store, and throws its
// errors.
void SaveParameters(const std::string& path, const nn::ParameterDict& parameters, FileMetadata metadata = {});

struct LoadParametersOptions {
  bool cast_dtype = true;  // false: a different type in the file is an error
};
// Reads the values of `parameters` and returns the file's metadata. The file must have every parameter, with
// its shape, and nothing else; else LoadParameters throws Error, which names the file, the parameter and both
// shapes. Floating types are converted to the type of the parameter, rounding to nearest, ties to even;
// values beyond its range become infinite. Initialize must have been called on the parameters. Their shapes
// may still be deferred; LoadParameters fills them in.
FileMetadata LoadParameters(const std::string& path, const nn::ParameterDict& parameters,
                            const LoadParametersOptions& options = {});
// Returns the metadata of a file of parameters. It needs no model.
FileMetadata ReadFileMetadata(const std::string& path);

}  // namespace sluice

// A checkpoint as the texts in the metadata of its parameters file.
#pragma once

#include <string>

#include "sluice/checkpoint.h"
#include "sluice/parameters_file.h"

namespace sluice::train {

// Throws Error(kInvalidArgument) for a name that files of parameters have an entry of their own under.
void RequireFreeNames(const FileMetadata& metadata);

FileMetadata MetadataOf(const Checkpoint& checkpoint);

// Fills `loaded`, whose `next` is what the file's name says; without a position in the metadata only what is
// the program's own. Throws Error(kDataLoss) that names file and entry for what no run can have written.
void ReadMetadata(const std::string& path, const FileMetadata& metadata, LoadedCheckpoint* loaded);

}  // namespace sluice::train

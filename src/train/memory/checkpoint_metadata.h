// Conversion between a checkpoint and the metadata of its parameters file.
#pragma once

#include <string>

#include "sluice/checkpoint.h"
#include "sluice/parameters_file.h"

namespace sluice::train {

// Throws Error(kInvalidArgument) for an entry whose name Sluice uses itself in files of parameters.
void RequireFreeNames(const FileMetadata& metadata);

FileMetadata MetadataOf(const Checkpoint& checkpoint);

// Fills `loaded`, whose `next` is the position in the file's name. If the metadata have no position,
// only the program's own entries are filled in. Throws Error(kDataLoss), naming file and entry, for
// metadata that no run can have written.
void ReadMetadata(const std::string& path, const FileMetadata& metadata, LoadedCheckpoint* loaded);

}  // namespace sluice::train

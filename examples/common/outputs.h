// What a training program writes.
#pragma once

#include <string>
#include <vector>

#include "sluice/callback.h"
#include "sluice/fit.h"
#include "sluice/kvstore.h"

namespace sluice::examples {

// Throws Error(kInvalidArgument) for files that cannot be written: before hours of training, not after.
void CheckOutputs();

// Whether the flags ask for parameters in a file.
bool SavesParameters();

// Checkpoints, best parameters, early stopping, learning curves. `metadata` goes into files of parameters.
std::vector<CallbackPtr> Callbacks(const FileMetadata& metadata);

// --json. `samples`: what they are called.
void WriteJson(const FitReport& report, const KVStore& store, int num_servers, const std::string& samples);

}  // namespace sluice::examples

// The files that a training program writes.
#pragma once

#include <string>
#include <vector>

#include "sluice/callback.h"
#include "sluice/fit.h"
#include "sluice/kvstore.h"

namespace sluice::examples {

// Throws Error(kInvalidArgument) if a file that the flags ask for cannot be written, if two flags name the
// same file, or if --model-prefix has newer checkpoints of another run. Called before training begins.
void CheckOutputs();

// Throws Error(kInvalidArgument), which names the flag, unless this worker can write that file.
void RequirePlaceFor(const std::string& flag, const std::string& file);

// Returns whether the flags ask for a file of parameters.
bool SavesParameters();

// Returns the callbacks that the flags ask for: checkpoints, best parameters, early stopping, learning
// curves. `metadata` is stored in each file of parameters.
std::vector<CallbackPtr> Callbacks(const FileMetadata& metadata);

// Writes the summary of the run to the file of --json. `samples` is the plural noun for the samples, such as
// "images"; it becomes part of the key "images_per_sec". `test` is the last evaluation, and `metric` the
// name of its score.
void WriteJson(const FitReport& report, const std::string& metric, const EvalReport& test,
               const KVStore& store, int num_servers, const std::string& samples);

}  // namespace sluice::examples

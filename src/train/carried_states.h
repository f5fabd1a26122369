// A file of the states that one worker's layers carry from one forward to the next, for a checkpoint within
// an epoch: an entry for each of CarriedStates.
#pragma once

#include <string>

#include "sluice/data.h"
#include "sluice/nn.h"

namespace sluice::train {

// Writes the file of worker `rank` (CheckpointCarriedFile). Waits for the states. Throws Error, which names
// the file, when it cannot be written.
void SaveCarriedStates(const std::string& prefix, const Position& next, int rank, const nn::Layer& net);
// Sets what the file of worker `rank` has; where there is none, says so in the log. Does nothing for a
// network that carries no states. Throws Error, which names the file, when it cannot be read.
void LoadCarriedStates(const std::string& prefix, const Position& next, int rank, nn::Layer& net);

}  // namespace sluice::train

// Files of the states that layers carry from one forward to the next, for checkpoints within an epoch: each
// worker writes one, with an entry for each of its CarriedStates.
#pragma once

#include <string>
#include <vector>

#include "sluice/callback.h"
#include "sluice/data.h"
#include "sluice/nn.h"

namespace sluice::train {

// Writes the file of worker `rank` (CheckpointCarriedFile). Waits for the states. Throws Error, which names
// the file, when it cannot be written.
void SaveCarriedStates(const std::string& prefix, const Position& next, int rank, const nn::Layer& net);
// The same, but a failure is logged: the worker goes on, and a run that is resumed there begins with zeros.
void SaveCarriedStatesOrWarn(const std::string& prefix, const Position& next, int rank, const nn::Layer& net);
// Sets the states of all files that are there, so that the batch may be divided over workers in another way;
// where there is none, says so in the log. Does nothing for a network that carries no states. Throws Error,
// which names the file, when one cannot be read.
void LoadCarriedStates(const std::string& prefix, const Position& next, nn::Layer& net);
// Returns the files of this position that are on this machine.
std::vector<std::string> CarriedFiles(const std::string& prefix, const Position& next);
// Returns a text that two workers have in common if they save such files after the same steps.
std::string StepsOfSaves(const std::vector<CallbackPtr>& callbacks, const nn::Layer& net);

}  // namespace sluice::train

// A training run on disk, to go on from. PREFIX-0003.safetensors holds the parameters after three epochs, for
// any tool to read, and in its metadata where the run stood; PREFIX-0003.states.safetensors the optimiser's
// states.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/parameter.h"
#include "sluice/trainer.h"

namespace sluice {

struct Checkpoint {
  int64_t epoch = 0;  // epochs done: the data go on at {epoch, 0}
  int64_t step = 0;   // steps done, counted from the first epoch
  // All that the DataLoader's order of samples depends on, besides the membership.
  uint64_t seed = 0;
  bool shuffle = true;
};

std::string CheckpointFile(const std::string& prefix, int64_t epoch);
std::string CheckpointStatesFile(const std::string& prefix, int64_t epoch);

// For one process of a job: the one of rank 0. The parameters come last, under a temporary name that is then
// replaced: where they are, the states are too.
void SaveCheckpoint(const std::string& prefix, const Checkpoint& checkpoint,
                    const nn::ParameterDict& parameters, Trainer& trainer);

struct LoadedCheckpoint : Checkpoint {
  bool has_position = false;  // else the file holds parameters only, and of Checkpoint `epoch` alone is known
  std::string states;         // file of the optimiser's states, for FitOptions; empty: there is none
  int64_t updates = 0;        // that they have seen: of the key that has seen most
};
// Fills `parameters` as LoadParameters does. The states wait for their optimiser. Throws Error(kDataLoss)
// when the metadata are not what SaveCheckpoint writes, naming file and entry.
LoadedCheckpoint LoadCheckpoint(const std::string& prefix, int64_t epoch,
                                const nn::ParameterDict& parameters);

}  // namespace sluice

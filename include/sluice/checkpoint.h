// Checkpoints: a training run on disk, from which it can be resumed bit-identically.
//
// PREFIX-0003.safetensors has the parameters after three epochs, PREFIX-0003-000200.safetensors those after
// 200 steps more; the metadata of the file say where the run stood, and other tools can read the file.
// PREFIX-0003[-000200].states.safetensors has the optimiser's states. If contexts have different statistics,
// PREFIX-0003[-000200].statistics.safetensors has those of each context. Within an epoch,
// PREFIX-0003-000200.carried-1.safetensors has the states that the layers of worker 1 carry
// (RecurrentOptions::carries_state), on the machine of that worker. Fit has each worker write its own; a
// checkpoint that a signal asks for (SaveOptions::end_asked) has worker 0's alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sluice/data.h"
#include "sluice/parameter.h"
#include "sluice/parameters_file.h"
#include "sluice/trainer.h"

namespace sluice {

struct Checkpoint {
  Position next;     // the batch with which the run goes on
  int64_t step = 0;  // number of steps done since the beginning of the first epoch
  // With `next`, the three fields below determine the order of samples and every random number.
  uint64_t seed = 0;
  bool shuffle = true;
  Batching batching = {};                          // num_samples is 0 where the batching is not known
  std::map<std::string, std::string> memory = {};  // what callbacks remember, by name
  // Metadata of the program's own, such as the words that its samples' ids stand for.
  FileMetadata metadata = {};
};

std::string CheckpointFile(const std::string& prefix, const Position& next);
std::string CheckpointStatesFile(const std::string& prefix, const Position& next);
std::string CheckpointStatisticsFile(const std::string& prefix, const Position& next);
std::string CheckpointCarriedFile(const std::string& prefix, const Position& next, int rank);
// Returns the positions of the complete checkpoints under `prefix`, in ascending order. Throws
// Error(kUnavailable) for a folder that cannot be read.
std::vector<Position> ListCheckpoints(const std::string& prefix);

// Writes a checkpoint, and replaces one of the same position. In a job only the process of rank 0 calls it.
// The parameters are written last, to a temporary file that is then renamed, so that a checkpoint with a file
// of parameters is complete. If a save is killed before that, the next save under `prefix` removes its files.
// Throws Error(kInvalidArgument) for metadata under a name that Sluice uses itself, such as "epoch".
void SaveCheckpoint(const std::string& prefix, const Checkpoint& checkpoint,
                    const nn::ParameterDict& parameters, Trainer& trainer);
// Removes all files of a checkpoint, the parameters first. Those of other workers on machines of their own
// stay.
void RemoveCheckpoint(const std::string& prefix, const Position& next);

struct LoadedCheckpoint : Checkpoint {
  // False if the file has parameters only; then `next` and `metadata` are the only fields of Checkpoint that
  // are known.
  bool has_position = false;
  std::string states;      // for FitOptions: the file of the optimiser's states; empty: there is none
  std::string statistics;  // for FitOptions: the file of each context's statistics; empty: they are equal
  int64_t updates = 0;     // the largest number of updates of any key in `states`
};
// Reads everything but the parameters, for programs that have no network yet. Throws Error(kNotFound), which
// lists the checkpoints that exist, when there is none at this position, and Error(kDataLoss), which names
// file and entry, when the metadata are not what SaveCheckpoint writes.
LoadedCheckpoint ReadCheckpoint(const std::string& prefix, const Position& next);
// Also fills `parameters`, as LoadParameters does, but converts no types, since a resumed run has the types
// that it had. Loading the optimiser's states is left to the caller (FitOptions, Trainer::LoadStates). Throws
// as ReadCheckpoint and LoadParameters do.
LoadedCheckpoint LoadCheckpoint(const std::string& prefix, const Position& next,
                                const nn::ParameterDict& parameters);

// Describes the difference of two batchings, as "the batch of all workers was 64 and is 32"; empty if they
// are equal. A run that is resumed within an epoch needs the same batching, because a step of another one is
// another position among the samples. A run that is resumed at the end of an epoch may have any.
std::string DifferenceOf(const Batching& then, const Batching& now);

}  // namespace sluice

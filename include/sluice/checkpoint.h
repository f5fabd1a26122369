// A training run on disk, to go on from to the last bit.
//
// PREFIX-0003.safetensors holds the parameters after three epochs, PREFIX-0003-000200.safetensors after 200
// steps more, for any tool to read, and in the metadata where the run stood;
// PREFIX-0003[-000200].states.safetensors the optimiser's states, PREFIX-0003[-000200].statistics.safetensors
// each context's own statistics, where contexts differ.
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
  Position next;     // the batch that the data go on with
  int64_t step = 0;  // steps done, counted from the first epoch
  // With `next`, all that the order of samples and every random number depend on.
  uint64_t seed = 0;
  bool shuffle = true;
  Batching batching = {};                          // without samples: not known
  std::map<std::string, std::string> memory = {};  // of callbacks, by name
  // The program's own, such as the words that its samples' ids stand for.
  FileMetadata metadata = {};
};

std::string CheckpointFile(const std::string& prefix, const Position& next);
std::string CheckpointStatesFile(const std::string& prefix, const Position& next);
std::string CheckpointStatisticsFile(const std::string& prefix, const Position& next);
// Those that are there, whole, the oldest first. Throws Error(kUnavailable) for a folder that cannot be read.
std::vector<Position> ListCheckpoints(const std::string& prefix);

// For one process of a job: the one of rank 0. Throws Error(kInvalidArgument) for metadata under a name that
// Sluice uses itself, such as "epoch". Takes the place of a checkpoint that is there. The parameters
// come last, under a temporary name that is then replaced: where they are, the rest is too, and what a
// save has left that was killed before is removed by the next save under the prefix.
void SaveCheckpoint(const std::string& prefix, const Checkpoint& checkpoint,
                    const nn::ParameterDict& parameters, Trainer& trainer);
// All its files; the parameters first.
void RemoveCheckpoint(const std::string& prefix, const Position& next);

struct LoadedCheckpoint : Checkpoint {
  bool has_position = false;  // else the file holds parameters only, and of Checkpoint `next` alone is known
  std::string states;         // file of the optimiser's states, for FitOptions; empty: there is none
  std::string statistics;  // file of each context's own statistics, for FitOptions; empty: they are the same
  int64_t updates = 0;     // that they have seen: of the key that has seen most
};
// All but the parameters themselves: what a program looks at before it has a network. Throws Error(kDataLoss)
// when the metadata are not what SaveCheckpoint writes, naming file and entry; Error(kNotFound) when there is
// no such checkpoint, naming those that there are.
LoadedCheckpoint ReadCheckpoint(const std::string& prefix, const Position& next);
// Fills `parameters` as LoadParameters does, but converts no type: a run that goes on has the one that it
// had. The states wait for their optimiser. Throws as ReadCheckpoint does.
LoadedCheckpoint LoadCheckpoint(const std::string& prefix, const Position& next,
                                const nn::ParameterDict& parameters);

// "the batch of all workers was 64 and is 32"; empty where they are the same. Within an epoch a run goes on
// with the same alone: else a step is another place among the samples. From the end of an epoch it may go on
// with any.
std::string DifferenceOf(const Batching& then, const Batching& now);

}  // namespace sluice

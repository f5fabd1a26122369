// Checkpoints: naming, listing, writing, reading and removing their files (sluice/checkpoint.h).
//
// A checkpoint is up to three files, parameters, optimiser states, statistics, beside the states that layers
// carry, which each worker writes before rank 0 begins (carried_states.h). The parameters are written last
// and removed first, so that where they exist the other files are whole; states or statistics without
// parameters are left from a save that was killed, and the next save removes them. Callbacks and programs
// call these functions on the training thread, for saving on rank 0 alone.
#include "sluice/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <span>
#include <sstream>

#include "base/file.h"
#include "base/strings.h"
#include "data/safetensors/safetensors.h"
#include "kvstore/states_file.h"
#include "sluice/error.h"
#include "sluice/parameters_file.h"
#include "train/carried_states.h"
#include "train/memory/checkpoint_metadata.h"
#include "train/statistics_file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".safetensors", kStatesEnding = ".states.safetensors",
                           kStatisticsEnding = ".statistics.safetensors";

std::string FileOf(const std::string& prefix, const Position& next, std::string_view ending) {
  ValidatePath(prefix).OrThrow();  // a NUL byte would cut the name short, to that of another file
  std::ostringstream name;
  name << prefix << '-' << std::setfill('0') << std::setw(4) << next.epoch;
  if (next.step != 0) name << '-' << std::setw(6) << next.step;
  name << ending;
  return name.str();
}

// Parses a file's name without prefix and ending: "-0003" or "-0003-000200".
std::optional<Position> ParsePosition(std::string_view text) {
  if (!text.starts_with('-')) return std::nullopt;
  const std::vector<std::string> parts = StrSplit(text.substr(1), '-');
  if (parts.size() > 2) return std::nullopt;
  const auto epoch = ParseInt(parts[0]), step = parts.size() == 2 ? ParseInt(parts[1]) : 0;
  if (!epoch || !step || *epoch < 0 || *step < 0) return std::nullopt;
  return Position{*epoch, *step};
}

// Returns the positions of the files with this ending, the oldest first. Only the file's name is
// compared, since a prefix may spell its folder in several ways ("run//x").
std::vector<Position> PositionsWith(const std::string& prefix, std::string_view ending) {
  ValidatePath(prefix).OrThrow();
  const fs::path path = prefix;
  const std::string stem = path.filename().string();
  std::vector<Position> found;
  std::error_code failure;
  fs::directory_iterator files(path.has_parent_path() ? path.parent_path() : ".", failure);
  if (failure)
    throw Error(ErrorCode::kUnavailable, StrCat("checkpoints ", prefix, "-*: ", failure.message()));
  for (const fs::directory_entry& file : files) {
    const std::string name = file.path().filename().string();
    if (name.size() < stem.size() + ending.size() || !name.starts_with(stem) || !name.ends_with(ending))
      continue;
    const auto position =
        ParsePosition(std::string_view(name).substr(stem.size(), name.size() - stem.size() - ending.size()));
    if (position && fs::path(FileOf(prefix, *position, ending)).filename() == name)
      found.push_back(*position);
  }
  std::ranges::sort(found);
  return found;
}

std::vector<std::string> FilesOf(const std::string& prefix, const Position& next) {
  return {CheckpointFile(prefix, next), CheckpointStatesFile(prefix, next),
          CheckpointStatisticsFile(prefix, next)};
}

void RemoveFiles(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    std::error_code failure;
    fs::remove(file, failure);
    if (failure) throw Error(ErrorCode::kUnavailable, StrCat(file, ": ", failure.message()));
  }
}

// Removes states and statistics without parameters, which a killed save has left: no run can resume
// from them.
// The states that layers carry at `next` and later are there already: other workers may be ahead.
void RemoveUnfinished(const std::string& prefix, const Position& next) {
  for (const std::string_view ending : {kStatesEnding, kStatisticsEnding}) {
    for (const Position& position : PositionsWith(prefix, ending)) {
      if (fs::exists(CheckpointFile(prefix, position))) continue;
      position < next ? RemoveCheckpoint(prefix, position) : RemoveFiles(FilesOf(prefix, position));
    }
  }
}

// Returns ascending numbers as text: "1 to 8, 10". If there are more than ten ranges, only the last ten are
// shown.
std::string RangesOf(const std::vector<int64_t>& numbers) {
  constexpr size_t kMost = 10;
  std::vector<std::string> ranges;
  for (size_t i = 0, next; i < numbers.size(); i = next) {
    for (next = i + 1; next < numbers.size() && numbers[next] == numbers[next - 1] + 1;) ++next;
    const int64_t first = numbers[i], last = numbers[next - 1];
    ranges.push_back(first == last       ? StrCat(first)
                     : first + 1 == last ? StrCat(first, ", ", last)
                                         : StrCat(first, " to ", last));
  }
  if (ranges.size() <= kMost) return StrJoin(ranges);
  return "..., " + StrJoin(std::span(ranges).last(kMost));
}

// Says which checkpoints exist, for the message about a missing one.
std::string WhatThereIs(const std::string& prefix) {
  const fs::path folder = fs::path(prefix).parent_path();
  if (!folder.empty() && !fs::exists(folder)) return StrCat("there is no folder '", folder.string(), "'");
  const std::vector<Position> found = ListCheckpoints(prefix);
  if (found.empty()) return StrCat("there is none under '", prefix, "'");
  std::vector<int64_t> epochs;
  for (const Position& position : found) {
    if (position.step == 0) epochs.push_back(position.epoch);
  }
  const std::string newest = StrCat("the newest is '", CheckpointFile(prefix, found.back()), "'");
  if (epochs.empty()) return StrCat("there is none after a whole epoch; ", newest);
  return StrCat("there are checkpoints after epoch ", RangesOf(epochs),
                found.back().step == 0 ? "" : StrCat("; ", newest));
}

void RequireThere(const std::string& prefix, const Position& next) {
  const std::string file = CheckpointFile(prefix, next);
  if (fs::exists(file)) return;
  throw Error(ErrorCode::kNotFound, StrCat("there is no checkpoint '", file, "'; ", WhatThereIs(prefix)));
}

LoadedCheckpoint Loaded(const std::string& prefix, const Position& next, const FileMetadata& metadata) {
  LoadedCheckpoint loaded;
  loaded.next = next;
  train::ReadMetadata(CheckpointFile(prefix, next), metadata, &loaded);
  const std::string statistics = CheckpointStatisticsFile(prefix, next);
  if (fs::exists(statistics)) {
    ReadSafetensors(statistics).OrThrow();  // throws here for a damaged file, naming it
    loaded.statistics = statistics;
  }
  const std::string states = CheckpointStatesFile(prefix, next);
  if (!fs::exists(states)) return loaded;
  loaded.states = states;
  loaded.updates = static_cast<int64_t>(kvstore::MostUpdates(states));
  return loaded;
}

}  // namespace

std::string CheckpointFile(const std::string& prefix, const Position& next) {
  return FileOf(prefix, next, kEnding);
}

std::string CheckpointStatesFile(const std::string& prefix, const Position& next) {
  return FileOf(prefix, next, kStatesEnding);
}

std::string CheckpointStatisticsFile(const std::string& prefix, const Position& next) {
  return FileOf(prefix, next, kStatisticsEnding);
}

std::string CheckpointCarriedFile(const std::string& prefix, const Position& next, int rank) {
  return FileOf(prefix, next, StrCat(".carried-", rank, kEnding));
}

std::vector<Position> ListCheckpoints(const std::string& prefix) {
  return PositionsWith(prefix, kEnding);
}

void SaveCheckpoint(const std::string& prefix, const Checkpoint& checkpoint,
                    const nn::ParameterDict& parameters, Trainer& trainer) {
  const FileMetadata metadata = train::MetadataOf(checkpoint);
  RemoveUnfinished(prefix, checkpoint.next);
  RemoveFiles(
      FilesOf(prefix, checkpoint.next));  // else a killed save could leave old parameters with new states
  try {
    trainer.SaveStates(CheckpointStatesFile(prefix, checkpoint.next));
    train::SaveStatistics(CheckpointStatisticsFile(prefix, checkpoint.next), parameters);
    SaveParameters(CheckpointFile(prefix, checkpoint.next), parameters, metadata);
  } catch (...) {
    std::error_code ignored;  // the failure of the save is the one to report
    for (const std::string& file : FilesOf(prefix, checkpoint.next)) fs::remove(file, ignored);
    throw;
  }
}

void RemoveCheckpoint(const std::string& prefix, const Position& next) {
  RemoveFiles(FilesOf(prefix, next));
  RemoveFiles(train::CarriedFiles(prefix, next));
}

LoadedCheckpoint LoadCheckpoint(const std::string& prefix, const Position& next,
                                const nn::ParameterDict& parameters) {
  RequireThere(prefix, next);
  const std::string path = CheckpointFile(prefix, next);
  return Loaded(prefix, next, LoadParameters(path, parameters, {.cast_dtype = false}));
}

LoadedCheckpoint ReadCheckpoint(const std::string& prefix, const Position& next) {
  RequireThere(prefix, next);
  return Loaded(prefix, next, ReadFileMetadata(CheckpointFile(prefix, next)));
}

}  // namespace sluice

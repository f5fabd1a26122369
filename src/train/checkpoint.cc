#include "sluice/checkpoint.h"

#include <filesystem>
#include <iomanip>
#include <sstream>

#include "base/strings.h"
#include "kvstore/states_file.h"
#include "sluice/error.h"
#include "sluice/parameters_file.h"

namespace sluice {
namespace {

std::string NumberedFile(const std::string& prefix, int64_t epoch, const char* ending) {
  std::ostringstream name;
  name << prefix << '-' << std::setfill('0') << std::setw(4) << epoch << ending;
  return name.str();
}

// An entry of the metadata, or the error that says what it should have been.
template <typename Parse>
auto Entry(const std::string& path, const FileMetadata& metadata, const std::string& name, Parse parse) {
  const auto it = metadata.find(name);
  const std::string text = it == metadata.end() ? "" : it->second;
  const auto value = parse(text);
  if (!value) {
    throw Error(ErrorCode::kDataLoss,
                StrCat(path, ": the metadata's '", name, "' is '", text, "', which no checkpoint has there"));
  }
  return *value;
}

std::optional<int64_t> ParseCount(const std::string& text) {
  const auto count = ParseInt(text);
  return count && *count >= 0 ? count : std::nullopt;
}

void ReadPosition(const std::string& path, const FileMetadata& metadata, LoadedCheckpoint* loaded) {
  const int64_t epoch = Entry(path, metadata, "epoch", ParseCount);
  if (epoch != loaded->epoch) {
    throw Error(ErrorCode::kDataLoss,
                StrCat(path, " holds the parameters after epoch ", epoch, ", not ", loaded->epoch));
  }
  loaded->has_position = true;
  loaded->step = Entry(path, metadata, "step", ParseCount);
  loaded->seed = static_cast<uint64_t>(Entry(path, metadata, "seed", ParseInt));
  loaded->shuffle = Entry(path, metadata, "shuffle", ParseBool);
}

}  // namespace

std::string CheckpointFile(const std::string& prefix, int64_t epoch) {
  return NumberedFile(prefix, epoch, ".safetensors");
}

std::string CheckpointStatesFile(const std::string& prefix, int64_t epoch) {
  return NumberedFile(prefix, epoch, ".states.safetensors");
}

void SaveCheckpoint(const std::string& prefix, const Checkpoint& checkpoint,
                    const nn::ParameterDict& parameters, Trainer& trainer) {
  trainer.SaveStates(CheckpointStatesFile(prefix, checkpoint.epoch));
  SaveParameters(CheckpointFile(prefix, checkpoint.epoch), parameters,
                 {{"epoch", std::to_string(checkpoint.epoch)},
                  {"step", std::to_string(checkpoint.step)},
                  {"seed", std::to_string(static_cast<int64_t>(checkpoint.seed))},
                  {"shuffle", checkpoint.shuffle ? "true" : "false"}});
}

LoadedCheckpoint LoadCheckpoint(const std::string& prefix, int64_t epoch,
                                const nn::ParameterDict& parameters) {
  LoadedCheckpoint loaded;
  loaded.epoch = epoch;
  const std::string path = CheckpointFile(prefix, epoch);
  const FileMetadata metadata = LoadParameters(path, parameters);
  if (metadata.contains("epoch")) ReadPosition(path, metadata, &loaded);
  const std::string states = CheckpointStatesFile(prefix, epoch);
  if (!std::filesystem::exists(states)) return loaded;
  loaded.states = states;
  loaded.updates = static_cast<int64_t>(kvstore::MostUpdates(states));
  return loaded;
}

}  // namespace sluice

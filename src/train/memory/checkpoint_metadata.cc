// Conversion between a Checkpoint and the metadata of its parameters file.
//
// Names in kOwnNames, and those with the prefix kMemory, are Sluice's; all others are the program's and
// are passed through. The metadata of a file are not trusted: ReadMetadata checks every entry and that
// the entries fit each other, and throws Error(kDataLoss). checkpoint.cc and the callbacks call these
// functions on the training thread; a fuzz test calls ReadMetadata.
#include "train/memory/checkpoint_metadata.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::train {
namespace {

constexpr std::string_view kMemory = "callback ";  // followed by a callback's name
constexpr std::string_view kOwnNames[] = {"format",     "epoch",         "epoch_step",   "step",
                                          "seed",       "shuffle",       "num_samples",  "global_batch",
                                          "last_batch", "class_weights", "test_accuracy"};
constexpr int64_t kMostStepsPerEpoch = 1'000'000'000;

[[noreturn]] void ThrowInvalid(const std::string& path, const std::string& name, const std::string& text,
                               const std::string& why) {
  throw Error(ErrorCode::kDataLoss,
              StrCat(path, ": the metadata's '", name, "' is '", StrPrintable(text), "', ", why));
}

// Returns the entry `name`, parsed. Throws Error(kDataLoss) when it is missing or cannot be parsed.
template <typename Parse>
auto Entry(const std::string& path, const FileMetadata& metadata, const std::string& name, Parse parse) {
  const auto it = metadata.find(name);
  const std::string text = it == metadata.end() ? "" : it->second;
  const auto value = parse(text);
  if (!value) ThrowInvalid(path, name, text, "which no checkpoint has there");
  return *value;
}

bool IsOwn(const std::string& name) {
  return name.starts_with(kMemory) || std::ranges::find(kOwnNames, name) != std::end(kOwnNames);
}

std::optional<int64_t> ParseCount(std::string_view text) {
  const auto count = ParseInt(text);
  return count && *count >= 0 ? count : std::nullopt;
}

std::optional<int64_t> ParsePositive(std::string_view text) {
  const auto count = ParseInt(text);
  return count && *count > 0 ? count : std::nullopt;
}

std::optional<std::vector<double>> ParseWeights(std::string_view text) {
  std::vector<double> weights;
  for (const std::string& part : StrSplit(text, ',')) {
    const auto weight = ParseFiniteDouble(part);
    if (!weight || *weight < 0) return std::nullopt;
    weights.push_back(*weight);
  }
  return weights;
}

// Returns the weights as text, from which ParseWeights reads them back to the last bit.
std::string TextOf(const std::vector<double>& weights) {
  std::vector<std::string> texts;
  for (const double weight : weights) {
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), weight).ptr;
    texts.emplace_back(text.data(), end);
  }
  return StrJoin(texts, ",");
}

std::string ToText(const Position& position) {
  return position.step == 0 ? StrCat("epoch ", position.epoch)
                            : StrCat("epoch ", position.epoch, ", step ", position.step);
}

void ReadBatching(const std::string& path, const FileMetadata& metadata, LoadedCheckpoint* loaded) {
  Batching& batching = loaded->batching;
  batching.num_samples = Entry(path, metadata, "num_samples", ParsePositive);
  batching.global_batch = Entry(path, metadata, "global_batch", ParsePositive);
  batching.last_batch = Entry(path, metadata, "last_batch", LastBatchOf);
  if (metadata.contains("class_weights"))
    batching.class_weights = Entry(path, metadata, "class_weights", ParseWeights);
  const SamplerConfig all{.num_samples = batching.num_samples,
                          .batch_size = batching.global_batch,
                          .last_batch = batching.last_batch};
  const int64_t steps = StepsPerEpoch(all, 1, loaded->next.epoch);
  if (loaded->next.step >= steps && loaded->next.step != 0) {
    ThrowInvalid(path, "epoch_step", std::to_string(loaded->next.step),
                 StrCat("where an epoch of ", batching.num_samples, " samples in batches of ",
                        batching.global_batch, " has ", Counted(steps, "step")));
  }
}

// Throws unless the number of steps done fits the position. Batch size and data may have been different
// in earlier epochs, so only within epoch 0 is the number known exactly.
void CheckStep(const std::string& path, const LoadedCheckpoint& loaded) {
  const auto [epoch, step] = loaded.next;
  const bool first = epoch == 0;
  if (loaded.step >= step &&
      (first ? loaded.step == step : (loaded.step - step) / epoch <= kMostStepsPerEpoch))
    return;
  ThrowInvalid(path, "step", std::to_string(loaded.step),
               StrCat("which cannot be the steps done at ", ToText(loaded.next)));
}

}  // namespace

void RequireFreeNames(const FileMetadata& metadata) {
  for (const auto& [name, text] : metadata) {
    if (!IsOwn(name)) continue;
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("the metadata have an entry '", StrPrintable(name),
                       "', which files of parameters have already; give it another name"));
  }
}

FileMetadata MetadataOf(const Checkpoint& checkpoint) {
  RequireFreeNames(checkpoint.metadata);
  FileMetadata metadata = {{"epoch", std::to_string(checkpoint.next.epoch)},
                           {"epoch_step", std::to_string(checkpoint.next.step)},
                           {"step", std::to_string(checkpoint.step)},
                           {"seed", std::to_string(static_cast<int64_t>(checkpoint.seed))},
                           {"shuffle", checkpoint.shuffle ? "true" : "false"}};
  const Batching& batching = checkpoint.batching;
  if (batching != Batching()) {
    metadata["num_samples"] = std::to_string(batching.num_samples);
    metadata["global_batch"] = std::to_string(batching.global_batch);
    metadata["last_batch"] = Name(batching.last_batch);
    if (!batching.class_weights.empty()) metadata["class_weights"] = TextOf(batching.class_weights);
  }
  for (const auto& [name, text] : checkpoint.memory) metadata[StrCat(kMemory, name)] = text;
  metadata.insert(checkpoint.metadata.begin(), checkpoint.metadata.end());
  return metadata;
}

void ReadMetadata(const std::string& path, const FileMetadata& metadata, LoadedCheckpoint* loaded) {
  for (const auto& [name, text] : metadata) {
    if (!IsOwn(name)) loaded->metadata[name] = text;
  }
  if (!metadata.contains("epoch")) return;
  Position found{Entry(path, metadata, "epoch", ParseCount), 0};
  if (metadata.contains("epoch_step")) found.step = Entry(path, metadata, "epoch_step", ParseCount);
  if (found != loaded->next) {
    throw Error(ErrorCode::kDataLoss,
                StrCat(path, " holds the parameters after ", ToText(found), ", not ", ToText(loaded->next)));
  }
  loaded->has_position = true;
  loaded->step = Entry(path, metadata, "step", ParseCount);
  CheckStep(path, *loaded);
  loaded->seed = static_cast<uint64_t>(Entry(path, metadata, "seed", ParseInt));
  loaded->shuffle = Entry(path, metadata, "shuffle", ParseBool);
  if (metadata.contains("num_samples")) ReadBatching(path, metadata, loaded);
  for (const auto& [name, text] : metadata) {
    if (name.starts_with(kMemory)) loaded->memory[name.substr(kMemory.size())] = text;
  }
}

}  // namespace sluice::train

namespace sluice {

std::string DifferenceOf(const Batching& then, const Batching& now) {
  std::vector<std::string> differences;
  const auto compare = [&](const char* what, const auto& was, const auto& is) {
    if (was != is) differences.push_back(StrCat(what, " was ", was, " and is ", is));
  };
  const auto weights = [](const std::vector<double>& by_class) {
    return by_class.empty() ? "none" : train::TextOf(by_class);
  };
  compare("the number of samples", then.num_samples, now.num_samples);
  compare("the batch of all workers", then.global_batch, now.global_batch);
  compare("the last batch", Name(then.last_batch), Name(now.last_batch));
  if (then.class_weights != now.class_weights)
    differences.push_back(
        StrCat("class weights were ", weights(then.class_weights), " and are ", weights(now.class_weights)));
  return StrJoin(differences);
}

}  // namespace sluice

#include "kvstore/states_file.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"
#include "kvstore/update/update.h"
#include "sluice/error.h"

namespace sluice::kvstore {
namespace {

constexpr std::string_view kUpdatesEntry = "updates of ";  // <key>

uint64_t ParseUpdates(const std::string& path, std::string_view key, const std::string& text) {
  const auto count = ParseInt(text);
  if (!count || *count < 0 || static_cast<uint64_t>(*count) > kMaxUpdates) {
    throw Error(ErrorCode::kDataLoss,
                StrCat(path, " does not say the updates of key ", StrPrintable(key), ": its metadata has '",
                       StrPrintable(text), "', a number from 0 to ", kMaxUpdates, " is expected"));
  }
  return static_cast<uint64_t>(*count);
}

}  // namespace

void SaveStates(const std::string& path, const Optimizer& optimizer, const std::vector<StateLayout>& layouts,
                const std::map<std::string, KeyStates>& states) {
  std::vector<TensorView> tensors;
  Metadata metadata = {{"format", "sluice optimizer states 1"},
                       {"optimizer", std::string(Name(optimizer.config().kind))}};
  for (const StateLayout& layout : layouts) {
    const KeyStates& of_key = states.at(layout.key);
    metadata[StrCat(kUpdatesEntry, layout.key)] = std::to_string(of_key.num_updates);
    const auto names = StateNames(optimizer, layout.dtype);
    for (size_t slot = 0; slot < of_key.slots.size(); ++slot) {
      tensors.push_back({StrCat(layout.key, "/", names[slot]), StateType(layout.dtype), layout.shape,
                         of_key.slots[slot].bytes()});
    }
  }
  WriteSafetensors(path, tensors, metadata).OrThrow();
}

std::map<std::string, KeyStates> LoadStates(const std::string& path, const Optimizer& optimizer,
                                            const std::vector<StateLayout>& layouts) {
  const SafetensorsFile file = ReadSafetensors(path).OrThrow();
  const auto kind = file.metadata.find("optimizer");
  if (kind == file.metadata.end() || kind->second != Name(optimizer.config().kind)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        StrCat(path, " holds states of optimiser '",
               kind == file.metadata.end() ? "?" : StrPrintable(kind->second), "', the store has '",
               Name(optimizer.config().kind), "': set that optimiser, or go on without these states"));
  }
  std::map<std::string, KeyStates> states;
  for (const StateLayout& layout : layouts) {
    KeyStates& of_key = states[layout.key];
    const auto updates = file.metadata.find(StrCat(kUpdatesEntry, layout.key));
    of_key.num_updates =
        ParseUpdates(path, layout.key, updates == file.metadata.end() ? "" : updates->second);
    const DType dtype = StateType(layout.dtype);
    for (const std::string_view slot : StateNames(optimizer, layout.dtype)) {
      const std::string name = StrCat(layout.key, "/", slot);
      const TensorView* tensor = file.Find(name);
      if (tensor == nullptr || tensor->shape != layout.shape || tensor->dtype != dtype) {
        throw Error(ErrorCode::kInvalidArgument,
                    StrCat(path, ": entry ", name,
                           tensor == nullptr ? " is missing"
                                             : StrCat(" is ", Name(tensor->dtype), " ", tensor->shape),
                           "; expected ", Name(dtype), " ", layout.shape));
      }
      Buffer& buffer = of_key.slots.emplace_back(tensor->bytes.size());
      std::memcpy(buffer.data(), tensor->bytes.data(), tensor->bytes.size());
    }
  }
  return states;
}

uint64_t MostUpdates(const std::string& path) {
  const SafetensorsFile file = ReadSafetensors(path).OrThrow();
  uint64_t most = 0;
  for (const auto& [entry, text] : file.metadata) {
    if (entry.starts_with(kUpdatesEntry))
      most = std::max(most, ParseUpdates(path, entry.substr(kUpdatesEntry.size()), text));
  }
  return most;
}

}  // namespace sluice::kvstore

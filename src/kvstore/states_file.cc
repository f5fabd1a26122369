#include "kvstore/states_file.h"

#include <cstring>

#include "base/strings.h"
#include "kvstore/update/update.h"
#include "sluice/error.h"

namespace sluice::kvstore {
namespace {

std::string UpdatesEntry(const std::string& key) {
  return StrCat("updates of ", key);
}

}  // namespace

void SaveStates(const std::string& path, const Optimizer& optimizer, const std::vector<StateLayout>& layouts,
                const std::map<std::string, KeyStates>& states) {
  std::vector<TensorView> tensors;
  Metadata metadata = {{"format", "sluice optimizer states 1"},
                       {"optimizer", std::string(Name(optimizer.config().kind))}};
  for (const StateLayout& layout : layouts) {
    const KeyStates& of_key = states.at(layout.key);
    metadata[UpdatesEntry(layout.key)] = std::to_string(of_key.num_updates);
    for (size_t slot = 0; slot < of_key.slots.size(); ++slot) {
      tensors.push_back({StrCat(layout.key, "/", optimizer.slot_names()[slot]), layout.dtype, layout.shape,
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
    throw Error(ErrorCode::kInvalidArgument,
                StrCat(path, " holds states of optimiser '", kind == file.metadata.end() ? "?" : kind->second,
                       "', the store has '", Name(optimizer.config().kind), "'"));
  }
  std::map<std::string, KeyStates> states;
  for (const StateLayout& layout : layouts) {
    KeyStates& of_key = states[layout.key];
    const auto updates = file.metadata.find(UpdatesEntry(layout.key));
    const auto count = updates == file.metadata.end() ? std::nullopt : ParseInt(updates->second);
    if (!count || *count < 0 || static_cast<uint64_t>(*count) > kMaxUpdates) {
      throw Error(ErrorCode::kDataLoss,
                  StrCat(path, " does not say the updates of key ", layout.key, ": its metadata has '",
                         updates == file.metadata.end() ? "" : updates->second, "', a number from 0 to ",
                         kMaxUpdates, " is expected"));
    }
    of_key.num_updates = static_cast<uint64_t>(*count);
    for (const std::string_view slot : optimizer.slot_names()) {
      const std::string name = StrCat(layout.key, "/", slot);
      const TensorView* tensor = file.Find(name);
      if (tensor == nullptr || tensor->shape != layout.shape || tensor->dtype != layout.dtype) {
        throw Error(ErrorCode::kInvalidArgument,
                    StrCat(path, ": entry ", name,
                           tensor == nullptr ? " is missing"
                                             : StrCat(" is ", Name(tensor->dtype), " ", tensor->shape),
                           "; expected ", Name(layout.dtype), " ", layout.shape));
      }
      Buffer& buffer = of_key.slots.emplace_back(tensor->bytes.size());
      std::memcpy(buffer.data(), tensor->bytes.data(), tensor->bytes.size());
    }
  }
  return states;
}

}  // namespace sluice::kvstore

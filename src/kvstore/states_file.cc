// Saving and loading of optimiser states; the header describes the format. The functions keep no state.
// Invariant: nothing in a file is trusted: entries, dtypes, shapes, row ids and numbers of updates are
// checked before they are used. local_states.cc, OptimizerStates (worker/store) and LocalUpdate call
// SaveStates and LoadStates, and checkpoint.cc calls MostUpdates, on the program's threads.
#include "kvstore/states_file.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "base/strings.h"
#include "kvstore/update/update.h"
#include "sluice/error.h"

namespace sluice::kvstore {
namespace {

constexpr std::string_view kUpdatesEntry = "updates of ";  // <key>
constexpr std::string_view kRowsEntry = "/rows";           // after <key>

uint64_t ParseUpdates(const std::string& path, std::string_view key, const std::string& text) {
  const auto count = ParseInt(text);
  if (!count || *count < 0 || static_cast<uint64_t>(*count) > kMaxUpdates) {
    throw Error(ErrorCode::kDataLoss,
                StrCat(path, " does not say the updates of key ", StrPrintable(key), ": its metadata has '",
                       StrPrintable(text), "', a number from 0 to ", kMaxUpdates, " is expected"));
  }
  return static_cast<uint64_t>(*count);
}

const TensorView& Require(const std::string& path, const SafetensorsFile& file, const std::string& name,
                          DType dtype, const std::optional<Shape>& shape) {
  const TensorView* tensor = file.Find(name);
  const bool fits = tensor != nullptr && tensor->dtype == dtype &&
                    (shape ? tensor->shape == *shape : tensor->shape.ndim() == 1);
  if (fits) return *tensor;
  throw Error(
      ErrorCode::kInvalidArgument,
      StrCat(path, ": entry ", name,
             tensor == nullptr ? " is missing" : StrCat(" is ", Name(tensor->dtype), " ", tensor->shape),
             "; expected ", Name(dtype), " ", shape ? shape->ToString() : "[n]"));
}

std::vector<int64_t> ReadRows(const std::string& path, const SafetensorsFile& file,
                              const StateLayout& layout) {
  const TensorView& tensor = Require(path, file, StrCat(layout.key, kRowsEntry), DType::kInt64, std::nullopt);
  std::vector<int64_t> rows(static_cast<size_t>(tensor.shape.size()));
  if (!rows.empty()) std::memcpy(rows.data(), tensor.bytes.data(), tensor.bytes.size());
  int64_t last = -1;
  for (const int64_t row : rows) {
    if (row <= last || row >= layout.shape[0]) {
      throw Error(ErrorCode::kDataLoss,
                  StrCat(path, ": entry ", layout.key, kRowsEntry, " has row ", row, " after row ", last,
                         "; they ascend, up to ", layout.shape[0] - 1));
    }
    last = row;
  }
  return rows;
}

// The shape of one state of a key.
Shape StateShape(const StateLayout& layout, const KeyStates& states) {
  return layout.row_sparse ? layout.shape.WithExtent(0, static_cast<int64_t>(states.rows.size()))
                           : layout.shape;
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
    const Shape shape = StateShape(layout, of_key);
    if (layout.row_sparse && !names.empty()) {
      tensors.push_back({StrCat(layout.key, kRowsEntry), DType::kInt64, Shape{shape[0]},
                         std::as_bytes(std::span(of_key.rows))});
    }
    for (size_t slot = 0; slot < of_key.slots.size(); ++slot) {
      tensors.push_back(
          {StrCat(layout.key, "/", names[slot]), StateType(layout.dtype), shape, of_key.slots[slot].bytes()});
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
    const auto names = StateNames(optimizer, layout.dtype);
    if (layout.row_sparse && !names.empty()) of_key.rows = ReadRows(path, file, layout);
    for (const std::string_view slot : names) {
      const TensorView& tensor = Require(path, file, StrCat(layout.key, "/", slot), StateType(layout.dtype),
                                         StateShape(layout, of_key));
      Buffer& buffer = of_key.slots.emplace_back(tensor.bytes.size());
      if (!tensor.bytes.empty()) std::memcpy(buffer.data(), tensor.bytes.data(), tensor.bytes.size());
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

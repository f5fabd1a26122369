#include "train/carried_states.h"

#include <filesystem>

#include "base/hash.h"
#include "base/log.h"
#include "base/strings.h"
#include "data/safetensors/safetensors.h"
#include "sluice/checkpoint.h"
#include "sluice/error.h"
#include "tensor/access.h"

namespace sluice::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "sluice carried states 1";

void Read(const std::string& path, nn::CarriedStates* states) {
  const SafetensorsFile file = ReadSafetensors(path).OrThrow();
  const auto format = file.metadata.find("format");
  if (format == file.metadata.end() || format->second != kFormat)
    throw Error(ErrorCode::kDataLoss, StrCat(path, ": is no file of '", kFormat, "'"));
  for (const TensorView& tensor : file.tensors) {
    NDArray value = NDArray::Empty(tensor.shape, cpu_pinned(0), tensor.dtype);
    value.SetBytes(tensor.bytes);
    (*states)[tensor.name] = value;
  }
}

}  // namespace

void SaveCarriedStates(const std::string& prefix, const Position& next, int rank, const nn::Layer& net) {
  nn::CarriedStates states;
  net.AddStatesTo(&states);
  std::vector<TensorView> tensors;
  std::vector<NDArray> values;  // the arrays that `tensors` are views of
  for (const auto& [name, state] : states) {
    const NDArray& host = values.emplace_back(HostArray(state));
    host.WaitToRead();
    tensors.push_back({name, host.dtype(), host.shape(), HostBytes(host)});
  }
  WriteSafetensors(CheckpointCarriedFile(prefix, next, rank), tensors, {{"format", kFormat}}).OrThrow();
}

void SaveCarriedStatesOrWarn(const std::string& prefix, const Position& next, int rank,
                             const nn::Layer& net) {
  try {
    SaveCarriedStates(prefix, next, rank, net);
  } catch (const Error& error) {
    LOG(WARNING) << WrapLogged(StrCat("the states that layers carry are not saved: ", error.what()));
  }
}

void LoadCarriedStates(const std::string& prefix, const Position& next, nn::Layer& net) {
  if (!net.CarriesStates()) return;
  const std::vector<std::string> files = CarriedFiles(prefix, next);
  if (files.empty()) {
    LOG(WARNING) << WrapLogged(
        StrCat("there is no ", CheckpointCarriedFile(prefix, next, 0),
               " and none of another worker: layers that carry states begin with zeros"));
    return;
  }
  nn::CarriedStates states;
  for (const std::string& file : files) Read(file, &states);
  net.SetStates(states);
}

std::vector<std::string> CarriedFiles(const std::string& prefix, const Position& next) {
  const fs::path any = CheckpointCarriedFile(prefix, next, 0);
  const std::string name = any.filename().string();
  const size_t digits = name.rfind("0.");  // the rank
  const std::string begin = name.substr(0, digits), end = name.substr(digits + 1);
  std::vector<std::string> files;
  std::error_code failure;  // a folder that is not there has none
  for (const fs::directory_entry& file :
       fs::directory_iterator(any.has_parent_path() ? any.parent_path() : ".", failure)) {
    const std::string found = file.path().filename().string();
    if (found.size() <= begin.size() + end.size() || !found.starts_with(begin) || !found.ends_with(end))
      continue;
    if (ParseInt(found.substr(begin.size(), found.size() - begin.size() - end.size())))
      files.push_back((any.parent_path() / found).string());
  }
  return files;
}

std::string StepsOfSaves(const std::vector<CallbackPtr>& callbacks, const nn::Layer& net) {
  constexpr int64_t kSteps = 100'000;
  std::string saves;
  for (const CallbackPtr& callback : callbacks) {
    if (!net.CarriesStates() || callback->SavesAfter(1, /*is_last=*/true).empty()) continue;
    saves += '.';
    for (int64_t step = 1; step <= kSteps; ++step)
      if (!callback->SavesAfter(step, /*is_last=*/false).empty()) saves += StrCat(step, ' ');
  }
  return saves.empty() ? "none" : StrCat("digest ", Fnv1a(saves));
}

}  // namespace sluice::train

#include "train/carried_states.h"

#include <filesystem>
#include <vector>

#include "base/log.h"
#include "base/strings.h"
#include "data/safetensors/safetensors.h"
#include "sluice/checkpoint.h"
#include "tensor/access.h"

namespace sluice::train {

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
  WriteSafetensors(CheckpointCarriedFile(prefix, next, rank), tensors,
                   {{"format", "sluice carried states 1"}})
      .OrThrow();
}

void LoadCarriedStates(const std::string& prefix, const Position& next, int rank, nn::Layer& net) {
  if (!net.CarriesStates()) return;
  const std::string path = CheckpointCarriedFile(prefix, next, rank);
  if (!std::filesystem::exists(path)) {
    LOG(WARNING) << WrapLogged(StrCat("there is no ", path, ": the layers of worker ", rank,
                                      " begin with zeros where their states should go on"));
    return;
  }
  const SafetensorsFile file = ReadSafetensors(path).OrThrow();
  nn::CarriedStates states;
  for (const TensorView& tensor : file.tensors) {
    NDArray value = NDArray::Empty(tensor.shape, cpu_pinned(0), tensor.dtype);
    value.SetBytes(tensor.bytes);
    states[tensor.name] = value;
  }
  net.SetStates(states);
}

}  // namespace sluice::train

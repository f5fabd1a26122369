#include "train/statistics_file.h"

#include <algorithm>

#include "base/strings.h"
#include "data/safetensors/safetensors.h"
#include "sluice/error.h"
#include "tensor/access.h"

namespace sluice::train {
namespace {

std::vector<std::shared_ptr<nn::Parameter>> Statistics(const nn::ParameterDict& parameters) {
  std::vector<std::shared_ptr<nn::Parameter>> statistics;
  for (const auto& parameter : parameters) {
    if (!parameter->differentiable()) statistics.push_back(parameter);
  }
  return statistics;
}

// Returns the entry's name, such as "bn.running_mean/1" for the second context.
std::string EntryOf(const nn::Parameter& parameter, size_t context) {
  return StrCat(parameter.name(), "/", context);
}

std::vector<NDArray> HostCopies(nn::Parameter& parameter) {
  std::vector<NDArray> copies;
  for (const NDArray& copy : parameter.list_data()) {
    copies.push_back(copy.AsInContext(cpu_pinned(0)));
    copies.back().WaitToRead();
  }
  return copies;
}

const TensorView& Find(const SafetensorsFile& file, const std::string& path, const nn::Parameter& parameter,
                       size_t context) {
  const std::string entry = EntryOf(parameter, context);
  const TensorView* tensor = file.Find(entry);
  if (tensor != nullptr && tensor->dtype == parameter.dtype() && tensor->shape == parameter.shape())
    return *tensor;
  throw Error(
      ErrorCode::kDataLoss,
      StrCat(path, ": entry ", entry,
             tensor == nullptr ? " is missing" : StrCat(" is ", Name(tensor->dtype), " ", tensor->shape),
             "; expected ", Name(parameter.dtype()), " ", parameter.shape()));
}

}  // namespace

void SaveStatistics(const std::string& path, const nn::ParameterDict& parameters) {
  std::vector<TensorView> tensors;
  std::vector<NDArray> values;  // the arrays that `tensors` are views of
  bool differ = false;
  for (const auto& parameter : Statistics(parameters)) {
    const std::vector<NDArray> copies = HostCopies(*parameter);
    for (size_t context = 0; context < copies.size(); ++context) {
      const Bytes bytes = HostBytes(copies[context]);
      tensors.push_back({EntryOf(*parameter, context), parameter->dtype(), parameter->shape(), bytes});
      differ = differ || !std::ranges::equal(bytes, HostBytes(copies.front()));
    }
    values.insert(values.end(), copies.begin(), copies.end());
  }
  if (differ) WriteSafetensors(path, tensors, {{"format", "sluice statistics 1"}}).OrThrow();
}

void LoadStatistics(const std::string& path, const nn::ParameterDict& parameters) {
  const SafetensorsFile file = ReadSafetensors(path).OrThrow();
  const auto statistics = Statistics(parameters);
  size_t arrays = 0;
  for (const auto& parameter : statistics) arrays += parameter->list_data().size();
  if (file.tensors.size() != arrays) return;
  for (const auto& parameter : statistics) {
    for (size_t context = 0; context < parameter->list_data().size(); ++context)
      Find(file, path, *parameter, context);
  }
  for (const auto& parameter : statistics) {
    for (size_t context = 0; context < parameter->list_data().size(); ++context)
      parameter->list_data()[context].SetBytes(Find(file, path, *parameter, context).bytes);
  }
}

}  // namespace sluice::train

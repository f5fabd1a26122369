// Files of parameters: safetensors with one tensor per parameter, by name (sluice/parameters_file.h).
//
// LoadParameters checks every parameter and tensor before it sets any, so that a file that does not fit
// leaves the model as it was. Programs and checkpoint.cc call these functions on the training thread;
// saving waits for the arrays.
#include "sluice/parameters_file.h"

#include "base/strings.h"
#include "data/safetensors/safetensors.h"
#include "sluice/error.h"
#include "tensor/access.h"

namespace sluice {
namespace {

bool Fits(const Shape& known, const Shape& found) {
  if (known.ndim() != found.ndim()) return false;
  for (size_t axis = 0; axis < known.ndim(); ++axis) {
    if (known[axis] != 0 && known[axis] != found[axis]) return false;  // 0: not known yet
  }
  return true;
}

std::string TextOf(const Shape& known) {
  std::vector<std::string> dims;
  for (const int64_t extent : known.dims()) dims.push_back(extent == 0 ? "?" : std::to_string(extent));
  return StrCat("[", StrJoin(dims), "]");
}

// Returns the value to save. Weights are the same on every context, so it is the first one's. Statistics
// differ, so it is their mean, summed in float64: the mean of equal values is that value to the last bit.
NDArray ValueOf(nn::Parameter& parameter) {
  const std::vector<NDArray>& copies = parameter.list_data();
  if (copies.size() == 1 || parameter.differentiable() || parameter.dtype() != DType::kFloat32)
    return copies.front();
  std::vector<double> sums(static_cast<size_t>(copies.front().size()));
  for (const NDArray& copy : copies) {
    const std::vector<float> values = copy.ToVector();
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
  }
  std::vector<float> mean;
  for (const double sum : sums) mean.push_back(static_cast<float>(sum / static_cast<double>(copies.size())));
  return NDArray::From(std::span<const float>(mean), parameter.shape(), cpu_pinned(0));
}

bool Takes(DType parameter, DType found, const LoadParametersOptions& options) {
  return found == parameter || (options.cast_dtype && IsFloating(found) && IsFloating(parameter));
}

void RequireFor(const nn::Parameter& parameter, const SafetensorsFile& file, const std::string& path,
                const LoadParametersOptions& options) {
  if (!parameter.initialized() && !parameter.deferred()) {
    throw Error(ErrorCode::kFailedPrecondition,
                StrCat(path, ": parameter ", parameter.name(),
                       " is on no context yet: call Initialize before LoadParameters"));
  }
  const TensorView* tensor = file.Find(parameter.name());
  const bool fits = tensor != nullptr && Fits(parameter.shape(), tensor->shape);
  if (fits && Takes(parameter.dtype(), tensor->dtype, options)) return;
  const std::string found =
      tensor == nullptr ? " is missing" : StrCat(" is ", Name(tensor->dtype), " ", tensor->shape);
  const bool could_cast = fits && Takes(parameter.dtype(), tensor->dtype, {.cast_dtype = true});
  throw Error(ErrorCode::kInvalidArgument,
              StrCat(path, ": parameter ", parameter.name(), found, "; the model has ",
                     Name(parameter.dtype()), " ", TextOf(parameter.shape()),
                     could_cast ? ", and a run goes on with the type that it had: cast the model to it "
                                  "(--dtype), or begin a new run with these parameters, converted "
                                  "(LoadParameters, --load-params)"
                                : ""));
}

}  // namespace

void SaveParameters(const std::string& path, const nn::ParameterDict& parameters, FileMetadata metadata) {
  std::vector<TensorView> tensors;
  std::vector<NDArray> values;  // the arrays that `tensors` are views of
  for (const auto& parameter : parameters) {
    if (parameter->row_sparse()) parameter->rows().FetchAll();
    const NDArray& data = values.emplace_back(HostArray(ValueOf(*parameter)));
    data.WaitToRead();
    tensors.push_back({parameter->name(), data.dtype(), data.shape(), HostBytes(data)});
  }
  metadata["format"] = "sluice parameters 1";
  WriteSafetensors(path, tensors, metadata).OrThrow();
}

FileMetadata LoadParameters(const std::string& path, const nn::ParameterDict& parameters,
                            const LoadParametersOptions& options) {
  const SafetensorsFile file = ReadSafetensors(path).OrThrow();
  for (const auto& parameter : parameters) RequireFor(*parameter, file, path, options);
  for (const TensorView& tensor : file.tensors) {
    if (parameters.Find(tensor.name) == nullptr) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat(path, ": holds ", StrPrintable(tensor.name),
                         ", which the model does not have; it has ", StrJoin(parameters.names())));
    }
  }
  for (const auto& parameter : parameters) {
    const TensorView& tensor = *file.Find(parameter->name());
    NDArray value = NDArray::Empty(tensor.shape, cpu_pinned(0), tensor.dtype);
    value.SetBytes(tensor.bytes);
    parameter->SetData(value);
  }
  return file.metadata;
}

FileMetadata ReadFileMetadata(const std::string& path) {
  return ReadSafetensors(path).OrThrow().metadata;
}

}  // namespace sluice

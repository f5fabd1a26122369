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

}  // namespace

void SaveParameters(const std::string& path, const nn::ParameterDict& parameters, FileMetadata metadata) {
  std::vector<TensorView> tensors;
  for (const auto& parameter : parameters) {
    const NDArray& data = parameter->list_data().front();
    data.WaitToRead();
    tensors.push_back({parameter->name(), data.dtype(), data.shape(), HostBytes(data)});
  }
  metadata["format"] = "sluice parameters 1";
  WriteSafetensors(path, tensors, metadata).OrThrow();
}

FileMetadata LoadParameters(const std::string& path, const nn::ParameterDict& parameters) {
  const SafetensorsFile file = ReadSafetensors(path).OrThrow();
  for (const auto& parameter : parameters) {
    if (!parameter->initialized() && !parameter->deferred()) {
      throw Error(ErrorCode::kFailedPrecondition,
                  StrCat(path, ": parameter ", parameter->name(),
                         " is on no context yet: call Initialize before LoadParameters"));
    }
    const TensorView* tensor = file.Find(parameter->name());
    if (tensor == nullptr || tensor->dtype != parameter->dtype() ||
        !Fits(parameter->shape(), tensor->shape)) {
      throw Error(
          ErrorCode::kInvalidArgument,
          StrCat(path, ": parameter ", parameter->name(),
                 tensor == nullptr ? " is missing" : StrCat(" is ", Name(tensor->dtype), " ", tensor->shape),
                 "; the model has ", Name(parameter->dtype()), " ", parameter->shape()));
    }
  }
  for (const TensorView& tensor : file.tensors) {
    if (parameters.Find(tensor.name) == nullptr) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat(path, ": holds ", tensor.name, ", which the model does not have; it has ",
                         StrJoin(parameters.names())));
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

}  // namespace sluice

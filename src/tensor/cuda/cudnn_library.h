// The functions of cuDNN that convolutions use.
#pragma once

#include <cudnn.h>

#include <memory>
#include <string_view>

namespace sluice::cuda {

struct Cudnn {
  decltype(&cudnnCreate) Create;
  decltype(&cudnnDestroy) Destroy;
  decltype(&cudnnSetStream) SetStream;
  decltype(&cudnnGetErrorString) ErrorString;
  decltype(&cudnnGetLastErrorString) LastErrorString;
  decltype(&cudnnBackendCreateDescriptor) CreateDescriptor;
  decltype(&cudnnBackendDestroyDescriptor) DestroyDescriptor;
  decltype(&cudnnBackendSetAttribute) SetAttribute;
  decltype(&cudnnBackendGetAttribute) GetAttribute;
  decltype(&cudnnBackendFinalize) Finalize;
  decltype(&cudnnBackendExecute) Execute;
};

// Loads the library, which stays loaded as long as the functions are held. Throws Error(kUnavailable) where
// it is missing.
std::shared_ptr<const Cudnn> LoadCudnn();

// Throws Error(kUnavailable) that names `call`, cuDNN's status and its last message unless it succeeded.
void Require(const Cudnn& library, cudnnStatus_t status, std::string_view call);

}  // namespace sluice::cuda

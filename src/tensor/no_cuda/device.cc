// The twin of cuda/device.cc in builds without CUDA.
#include "tensor/devices.h"
#include "tensor/gpus.h"

namespace sluice {

Gpus FindGpus() {
  return Fail(ErrorCode::kUnimplemented, "this build of Sluice has no CUDA");
}

std::shared_ptr<Device> MakeGpuDevice(int id) {
  GpuUnavailable(id, FindGpus()).Throw();
}

}  // namespace sluice

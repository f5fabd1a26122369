// gpu(i) in builds without CUDA; the counterpart of cuda/device.cc.
#include "tensor/devices.h"
#include "tensor/gpus.h"

namespace sluice {

Gpus FindGpus() {
  return Fail(ErrorCode::kUnimplemented,
              "this build of Sluice has no CUDA; build it with -DSLUICE_CUDA=ON (docs/building.md)");
}

std::vector<GpuLibrary> FindGpuLibraries() {
  return {};
}

std::shared_ptr<Device> MakeGpuDevice(int id, bool /*multiplies_tfloat32*/) {
  GpuUnavailable(id, FindGpus()).Throw();
}

}  // namespace sluice

// The twin of cuda/device.cc in builds without CUDA.
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/devices.h"

namespace sluice {

std::shared_ptr<Device> MakeGpuDevice(int id) {
  throw Error(ErrorCode::kUnimplemented,
              StrCat("gpu(", id, "): this build of Sluice has no CUDA; use cpu contexts (--num-devices)"));
}

}  // namespace sluice

// The device of gpu(i).
#pragma once

#include <memory>

#include "tensor/devices.h"

namespace sluice::cuda {

// Makes it; the card must be there (FindGpus). Throws Error(kUnavailable) or Error(kResourceExhausted) if the
// card refuses. `multiplies_tfloat32` is that of DevicesOptions.
std::shared_ptr<Device> MakeCard(int id, bool multiplies_tfloat32 = false);

}  // namespace sluice::cuda

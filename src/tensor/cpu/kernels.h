// The kernels of cpu contexts: oneDNN's where it has them.
#pragma once

#include <memory>

#include "tensor/kernels.h"

namespace sluice {

std::unique_ptr<Kernels> MakeCpuKernels();

}  // namespace sluice

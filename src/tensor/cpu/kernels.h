// The kernels of cpu contexts: oneDNN's where it has them.
#pragma once

#include <memory>
#include <optional>

#include "tensor/kernels.h"

namespace sluice {

// Whether Arithmetic::kBFloat16 rounds factors to bfloat16; empty: where that is faster.
std::unique_ptr<Kernels> MakeCpuKernels(std::optional<bool> multiplies_bfloat16);

}  // namespace sluice

// The kernels of cpu contexts: oneDNN's where it has suitable ones, else loops of this folder.
#pragma once

#include <memory>
#include <optional>

#include "tensor/kernels.h"

namespace sluice {

// `multiplies_bfloat16` says whether Arithmetic::kBFloat16 rounds factors to bfloat16; if empty, it does
// where that is faster. Throws Error(kUnavailable) if it is true and the processor lacks AVX-512.
std::unique_ptr<Kernels> MakeCpuKernels(std::optional<bool> multiplies_bfloat16);

}  // namespace sluice

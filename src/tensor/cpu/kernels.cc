#include "tensor/cpu/kernels.h"

#include "sluice/error.h"

namespace sluice {

cpu::CpuKernels::CpuKernels(std::optional<bool> multiplies_bfloat16)
    : multiplies_bfloat16_(multiplies_bfloat16.value_or(OneDnn::MultipliesBFloat16Fast())) {
  if (multiplies_bfloat16 == true && !OneDnn::MultipliesBFloat16()) {
    throw Error(ErrorCode::kUnavailable,
                "arithmetic in bfloat16 needs a processor with AVX-512; without SLUICE_BFLOAT16_ARITHMETIC, "
                "weights of bfloat16 are multiplied in float32 here");
  }
}

std::unique_ptr<Kernels> MakeCpuKernels(std::optional<bool> multiplies_bfloat16) {
  return std::make_unique<cpu::CpuKernels>(multiplies_bfloat16);
}

}  // namespace sluice

#include "tensor/types/add_up.h"

#include "base/inline_vector.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/parallel.h"

namespace sluice {

void cpu::CpuKernels::AddUp(const AddUpArgs& args) {
  InlineVector<const std::byte*, 8> arrays;
  for (const void* array : args.arrays) arrays.push_back(static_cast<const std::byte*>(array));
  ParallelFor(args.n, kGrain, [&](int64_t begin, int64_t end) {
    sluice::AddUp(args.dtype, {arrays.data(), arrays.size()}, args.exponent,
                  static_cast<std::byte*>(args.out), static_cast<size_t>(begin),
                  static_cast<size_t>(end - begin));
  });
}

}  // namespace sluice

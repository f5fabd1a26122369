#include "tensor/cpu/kernels.h"
#include "tensor/with_numbers.h"

namespace sluice::cpu {

void CpuKernels::SequenceLengths(const SequenceLengthsArgs& args) {
  WithNumbers(args.id_type, args.ids, [&](const auto* values) {
    for (int64_t i = 0; i < args.n; ++i) {
      int64_t length = args.steps;
      while (length > 0 && static_cast<double>(values[i * args.steps + length - 1]) == args.padding) --length;
      args.lengths[i] = static_cast<int32_t>(length);
    }
  });
}

}  // namespace sluice::cpu

#include "tensor/cuda/kernels.h"
#include "tensor/cuda/map.cuh"
#include "tensor/with_numbers.h"

namespace sluice::cuda {
namespace {

template <typename Id>
struct LengthOp {
  const Id* ids;
  int64_t steps;
  double padding;
  __device__ int32_t operator()(int64_t row) const {
    int64_t length = steps;
    while (length > 0 && static_cast<double>(ids[row * steps + length - 1]) == padding) --length;
    return static_cast<int32_t>(length);
  }
};

}  // namespace

void CudaKernels::SequenceLengths(const SequenceLengthsArgs& args) {
  WithNumbers(args.id_type, args.ids, [&]<typename Id>(const Id* ids) {
    Map(stream_, args.n, args.lengths, LengthOp<Id>{ids, args.steps, args.padding});
  });
}

}  // namespace sluice::cuda

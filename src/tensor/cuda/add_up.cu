// The sum of several arrays, such as the gradients of a machine's contexts. The addresses of a few arrays
// are arguments of the kernel; those of more lie in the card's memory.
#include <cmath>
#include <cstddef>

#include "tensor/cuda/add_up.cuh"
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/map.cuh"

namespace sluice::cuda {
namespace {

constexpr size_t kFew = 16;

struct FewArrays {
  const void* arrays[kFew];
  __device__ const void* operator[](int i) const { return arrays[i]; }
};

template <typename T, typename Arrays>
struct AddUpOp {
  Arrays arrays;
  int count;
  float share;
  __device__ T operator()(int64_t i) const { return SumAt<T>(arrays, count, share, i); }
};

}  // namespace

void CudaKernels::AddUp(const AddUpArgs& args) {
  if (args.n == 0) return;
  const size_t count = args.arrays.size();
  const float share = std::ldexp(1.0f, -static_cast<int>(args.exponent));
  const auto add = [&]<typename Arrays>(const Arrays& arrays) {
    WithType(args.dtype, [&]<typename T>(T) {
      Map(stream_, args.n, static_cast<T*>(args.out),
          AddUpOp<T, Arrays>{arrays, static_cast<int>(count), share});
    });
  };
  if (count <= kFew) {
    FewArrays few{};
    std::copy(args.arrays.begin(), args.arrays.end(), few.arrays);
    return add(few);
  }
  auto* const table = workspace_.Take<const void*>(count);
  // The addresses are pageable memory, of which CUDA takes a copy before the call returns.
  Require(cudaMemcpyAsync(table, args.arrays.data(), count * sizeof(void*), cudaMemcpyDefault, stream_),
          "cudaMemcpyAsync of addresses");
  add(static_cast<const void* const*>(table));
}

}  // namespace sluice::cuda

// The sum of several arrays, such as the gradients of a machine's contexts. The addresses of a few arrays
// are arguments of the kernel; those of more lie in the card's memory.
#include <cmath>
#include <cstddef>

#include "tensor/cuda/conversion.cuh"
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/map.cuh"

namespace sluice::cuda {
namespace {

constexpr size_t kFew = 16;

struct FewArrays {
  const void* arrays[kFew];
  __device__ const void* operator[](int i) const { return arrays[i]; }
};

// Integers are added as unsigned numbers, so that they wrap.
template <typename T>
using Added =
    std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<Computed<T>>>::type;

template <typename T, typename Arrays>
struct AddUpOp {
  Arrays arrays;
  int count;
  float share;
  __device__ T operator()(int64_t i) const {
    Added<T> sum = At(0, i);
    for (int array = 1; array < count; ++array) sum = static_cast<Added<T>>(sum + At(array, i));
    if constexpr (sizeof(T) == 2) sum *= share;
    return Rounded<T>(sum);
  }
  __device__ Added<T> At(int array, int64_t i) const {
    const T value = static_cast<const T*>(arrays[array])[i];
    if constexpr (std::is_integral_v<T>) return static_cast<Added<T>>(value);
    if constexpr (!std::is_integral_v<T>) return Load(value);
  }
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

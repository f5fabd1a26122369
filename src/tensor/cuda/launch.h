// Launching kernels. Tests compile the kernels for the host as well, where a header of the same name takes
// this one's place (tests/gpu/emulation/), with fewer threads and blocks.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "tensor/cuda/error.h"

namespace sluice::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kWholeWarp = 0xffffffff;  // the mask of all its threads
inline constexpr int kThreads = 256;                // a block has so many, in every kernel
// Blocks of one launch: a kernel that has more to do loops. On an H100 each processor has 16 of them.
inline constexpr int64_t kMostBlocks = 2112;

// Enqueues kernel(args...) with `blocks` blocks, at least one and at most kMostBlocks, on `stream`.
template <typename... Params, typename... Args>
void Launch(cudaStream_t stream, int64_t blocks, void (*kernel)(Params...), const Args&... args) {
  std::tuple<Params...> values(args...);
  const dim3 grid(static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, kMostBlocks)));
  std::apply(
      [&](auto&... value) {
        void* pointers[] = {&value...};
        Require(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, dim3(kThreads), pointers, 0,
                                 stream),
                "cudaLaunchKernel");
      },
      values);
}

}  // namespace sluice::cuda

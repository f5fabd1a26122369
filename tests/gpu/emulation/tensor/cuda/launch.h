// Takes the place of src/tensor/cuda/launch.h where the kernels are compiled for the host: a launch runs the
// kernel with one host thread for each CUDA thread (tests/gpu/emulation/). Blocks are smaller and fewer, so
// that a test ends in seconds; a block still has several warps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "gpu/emulation/device_language.h"
#include "gpu/runtime/launch_grid.h"
#include "tensor/cuda/error.h"

namespace sluice::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kWholeWarp = 0xffffffff;
inline constexpr int kThreads = 64;
inline constexpr int64_t kMostBlocks = 3;

template <typename... Params, typename... Args>
void Launch(cudaStream_t stream, int64_t blocks, void (*kernel)(Params...), const Args&... args) {
  std::tuple<Params...> values(args...);
  const auto grid = static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, kMostBlocks));
  Require(emulation::LaunchGrid(stream, grid, kThreads, [kernel, values] { std::apply(kernel, values); }),
          "cudaLaunchKernel");
}

}  // namespace sluice::cuda

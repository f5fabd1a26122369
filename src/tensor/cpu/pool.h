// The two halves of pooling: pool.cc has row-major images and the methods of CpuKernels,
// pool_channels_last.cc the images with their channels last.
#pragma once

#include <cstdint>

#include "tensor/kernels/pool.h"

namespace sluice::cpu {

// Returns whether averages are summed in double. Those of large windows are, since a sum in float, which is
// twice as fast for a few values, would lose 3 digits over a whole image.
inline bool AddsInDouble(const PoolShape& s) {
  return s.window.height * s.window.width > 64;
}

// These compute images [first, last) of the batch, which lie kChannelsLast.
void PoolImages(const PoolArgs& args, int64_t first, int64_t last);
void PoolImagesBackward(const PoolBackwardArgs& args, int64_t first, int64_t last);

}  // namespace sluice::cpu

// A bitonic network (Batcher 1968, "Sorting networks and their applications"): steps of pairs that are put in
// order. Keys that are all unlike have one order, so that every run gives the same.
#include "tensor/cuda/launch.h"
#include "tensor/cuda/sort.h"

namespace sluice::cuda {
namespace {

constexpr int64_t kSortTile = int64_t{8} * kThreads;  // keys that a block sorts in shared memory

// Puts pair number i of the step (size, stride) in order: `keys` holds the keys from number `begin` on.
__device__ void OrderPair(uint64_t* keys, int64_t begin, int64_t i, int64_t size, int64_t stride) {
  const int64_t low = 2 * i - (i & (stride - 1)), high = low + stride;
  const bool ascends = ((begin + low) & size) == 0;
  const uint64_t first = keys[low], second = keys[high];
  if ((first > second) == ascends) {
    keys[low] = second;
    keys[high] = first;
  }
}

// One step of the network with a stride of at least a tile.
__global__ void SortStepKernel(uint64_t* keys, int64_t count, int64_t size, int64_t stride) {
  const int64_t width = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count / 2; i += width)
    OrderPair(keys, 0, i, size, stride);
}

// All steps within tiles of the sizes from `first` to `last`.
__global__ void SortTilesKernel(uint64_t* keys, int64_t count, int64_t first, int64_t last) {
  __shared__ uint64_t tile[kSortTile];
  const int64_t length = count < kSortTile ? count : kSortTile;
  for (int64_t begin = int64_t{blockIdx.x} * length; begin < count; begin += int64_t{gridDim.x} * length) {
    for (int64_t i = threadIdx.x; i < length; i += kThreads) tile[i] = keys[begin + i];
    __syncthreads();
    for (int64_t size = first; size <= last; size *= 2) {
      for (int64_t stride = size < length ? size / 2 : length / 2; stride > 0; stride /= 2) {
        for (int64_t i = threadIdx.x; i < length / 2; i += kThreads) OrderPair(tile, begin, i, size, stride);
        __syncthreads();
      }
    }
    for (int64_t i = threadIdx.x; i < length; i += kThreads) keys[begin + i] = tile[i];
    __syncthreads();  // the tile has been read
  }
}

}  // namespace

void Sort(cudaStream_t stream, uint64_t* keys, int64_t count) {
  const int64_t length = count < kSortTile ? count : kSortTile, tiles = count / length;
  if (count < 2) return;
  Launch(stream, tiles, SortTilesKernel, keys, count, int64_t{2}, length);
  for (int64_t size = 2 * length; size <= count; size *= 2) {
    for (int64_t stride = size / 2; stride >= length; stride /= 2)
      Launch(stream, (count / 2 + kThreads - 1) / kThreads, SortStepKernel, keys, count, size, stride);
    Launch(stream, tiles, SortTilesKernel, keys, count, size, size);
  }
}

}  // namespace sluice::cuda

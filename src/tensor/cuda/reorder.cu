#include "tensor/cuda/kernels.h"
#include "tensor/cuda/launch.h"

namespace sluice::cuda {
namespace {

constexpr int kTile = kWarp;  // rows and columns that a block transposes at a time

// Transposes `count` matrices [rows, columns]. A tile is read and written along its rows: neighbours of a
// warp are neighbours in memory both times. The tile's rows are one element longer than they need to be, so
// that a column of it lies in different banks of the shared memory.
__global__ void TransposeKernel(const float* from, float* to, int64_t count, int64_t rows, int64_t columns) {
  __shared__ float tile[kTile][kTile + 1];
  const int lane = static_cast<int>(threadIdx.x) % kTile, first = static_cast<int>(threadIdx.x) / kTile;
  constexpr int kLines = kThreads / kTile;  // rows of a tile that the block moves at once
  const int64_t down = (rows + kTile - 1) / kTile, across = (columns + kTile - 1) / kTile;
  for (int64_t i = blockIdx.x; i < count * down * across; i += gridDim.x) {
    const int64_t matrix = i / (down * across) * rows * columns;
    const int64_t row = i / across % down * kTile, column = i % across * kTile;
    for (int line = first; line < kTile; line += kLines) {
      if (row + line < rows && column + lane < columns)
        tile[line][lane] = from[matrix + (row + line) * columns + column + lane];
    }
    __syncthreads();
    for (int line = first; line < kTile; line += kLines) {
      if (column + line < columns && row + lane < rows)
        to[matrix + (column + line) * rows + row + lane] = tile[lane][line];
    }
    __syncthreads();  // the tile has been read
  }
}

}  // namespace

void CudaKernels::Reorder(const ReorderArgs& args) {
  const PlanesShape& s = args.shape;
  if (s.batch * s.channels * s.size == 0) return;
  const bool channels_last = args.to_layout == ImageLayout::kChannelsLast;
  const int64_t rows = channels_last ? s.channels : s.size, columns = channels_last ? s.size : s.channels;
  const int64_t tiles = ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
  Launch(stream_, s.batch * tiles, TransposeKernel, args.from, args.to, s.batch, rows, columns);
}

}  // namespace sluice::cuda

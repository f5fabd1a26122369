#include <algorithm>

#include "base/simd.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/parallel.h"

namespace sluice::cpu {
namespace {

// Transposes `from` [rows, columns] to `to` [columns, rows], tile by tile, so that
// both tiles stay in the first-level cache.
SLUICE_SIMD void Transpose(const float* from, float* to, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 16;
  for (int64_t row = 0; row < rows; row += kTile) {
    const int64_t row_end = std::min(row + kTile, rows);
    for (int64_t column = 0; column < columns; column += kTile) {
      const int64_t column_end = std::min(column + kTile, columns);
      for (int64_t j = column; j < column_end; ++j) {
        for (int64_t i = row; i < row_end; ++i) to[j * rows + i] = from[i * columns + j];
      }
    }
  }
}

}  // namespace

void CpuKernels::Reorder(const ReorderArgs& args) {
  const PlanesShape& s = args.shape;
  const bool channels_last = args.to_layout == ImageLayout::kChannelsLast;
  const int64_t rows = channels_last ? s.channels : s.size, columns = channels_last ? s.size : s.channels;
  ParallelFor(s.batch, PiecesWorthAThread(s.channels * s.size), [&](int64_t image, int64_t end) {
    for (; image < end; ++image)
      Transpose(args.from + image * rows * columns, args.to + image * rows * columns, rows, columns);
  });
}

}  // namespace sluice::cpu

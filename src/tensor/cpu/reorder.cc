#include "tensor/cpu/reorder.h"

#include <algorithm>

#include "base/simd.h"

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

void ReorderImages(const PlanesShape& s, const float* from, ImageLayout to_layout, float* to, int64_t first,
                   int64_t last) {
  const bool channels_last = to_layout == ImageLayout::kChannelsLast;
  const int64_t rows = channels_last ? s.channels : s.size, columns = channels_last ? s.size : s.channels;
  for (int64_t image = first; image < last; ++image)
    Transpose(from + image * rows * columns, to + image * rows * columns, rows, columns);
}

}  // namespace sluice::cpu

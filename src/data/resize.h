// Bilinear resizing of images [channels, height, width].
#pragma once

#include <cstdint>
#include <span>

#include "base/function_ref.h"
#include "sluice/shape.h"

namespace sluice {

// Resizes `from` into `to`. Both shapes have the same channels and no extent 0. Output pixel i lies at
// s (i + 1/2) - 1/2 of the input, where s is input extent / output extent. The inputs around it are
// weighted by a triangle of half-width 1, or of half-width s where s > 1 and `antialias` is set. At the
// border, without `antialias` the border's pixels stand for those outside; with it the weights of the
// pixels inside are scaled to a sum of 1. Both agree with PyTorch's F.interpolate.
void ResizePlanes(const Shape& from_shape, std::span<const float> from, const Shape& to_shape,
                  std::span<float> to, bool antialias);

// Returns row `y` of a channel, from_shape[2] values, which need to stay valid only until the next call.
using RowOf = FunctionRef<std::span<const float>(int64_t channel, int64_t y)>;

// As ResizePlanes, for an image whose rows are read one at a time. Its own memory grows with the number
// of rows and columns, not with the area of `from_shape`.
void ResizeRows(const Shape& from_shape, RowOf row, const Shape& to_shape, std::span<float> to,
                bool antialias);

}  // namespace sluice

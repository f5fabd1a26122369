// Bilinear resizing of [channels, height, width].
#pragma once

#include <cstdint>
#include <span>

#include "base/function_ref.h"
#include "sluice/shape.h"

namespace sluice {

// Both shapes have the same channels and no extent 0. Output pixel i lies at s (i + 1/2) - 1/2 of the input,
// s being input extent / output extent; the inputs there are mixed by a triangle of half-width 1, or of s
// where s > 1 and `antialias`. Beyond the border: without `antialias` the border's pixels count for those
// outside, with it what lies inside is scaled to a sum of 1 (as PyTorch's F.interpolate does each).
void ResizePlanes(const Shape& from_shape, std::span<const float> from, const Shape& to_shape,
                  std::span<float> to, bool antialias);

// Row `y` of a channel: from_shape[2] values, which may go at the next call.
using RowOf = FunctionRef<std::span<const float>(int64_t channel, int64_t y)>;

// As ResizePlanes, of an image whose rows are asked for one at a time: takes memory for rows and columns,
// never for the area of `from_shape`.
void ResizeRows(const Shape& from_shape, RowOf row, const Shape& to_shape, std::span<float> to,
                bool antialias);

}  // namespace sluice

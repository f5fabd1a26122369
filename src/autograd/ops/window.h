// Checks of the windows of convolutions and pooling.
#pragma once

#include "autograd/ops/common.h"

namespace sluice::ops {

inline void RequireSides(std::string_view what, const char* name, int64_t height, int64_t width,
                         int64_t least) {
  constexpr int64_t kMost = Window2D::kMost;
  if (std::min(height, width) >= least && std::max(height, width) <= kMost) return;
  ThrowInvalid(
      what, StrCat(name, " is ", height, "x", width, "; both numbers must be from ", least, " to ", kMost));
}

// Throws unless the window is valid and at least one of its positions lies within the padded image
// x [n, c, h, w].
inline void RequireWindow(std::string_view what, const Shape& x, const WindowShape& w) {
  RequireSides(what, "the window", w.height, w.width, 1);
  RequireSides(what, "the stride", w.stride_height, w.stride_width, 1);
  RequireSides(what, "the padding", w.pad_height, w.pad_width, 0);
  RequireSides(what, "the dilation", w.dilation_height, w.dilation_width, 1);
  if (x[2] + 2 * w.pad_height < w.full_height() || x[3] + 2 * w.pad_width < w.full_width()) {
    ThrowInvalid(what, StrCat("x ", x, " with a padding of ", w.pad_height, "x", w.pad_width,
                              " is smaller than the window ", w.full_height(), "x", w.full_width()));
  }
}

}  // namespace sluice::ops

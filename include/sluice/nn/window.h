// Heights and widths of windows; see sluice/nn.h.
#pragma once

#include <cstdint>

namespace sluice::nn {

// The height and the width of a window, a stride or a padding. One number sets both.
struct Window {
  Window(int64_t side) : height(side), width(side) {}  // NOLINT: implicit on purpose
  Window(int64_t height, int64_t width) : height(height), width(width) {}
  int64_t height, width;
  bool operator==(const Window&) const = default;
};

}  // namespace sluice::nn

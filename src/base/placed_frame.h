// A part of some bytes, and where it belongs.
#pragma once

#include <cstddef>
#include <vector>

#include "base/buffer.h"

namespace sluice {

struct PlacedFrame {
  size_t offset = 0;  // bytes
  Frame frame;
};
using PlacedFrames = std::vector<PlacedFrame>;

}  // namespace sluice

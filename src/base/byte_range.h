// A part of a block of bytes.
#pragma once

#include <cstddef>

namespace sluice {

struct ByteRange {
  size_t offset = 0, bytes = 0;
};

}  // namespace sluice

// Dropout, with a mask that depends on a key and the numbers of the samples only.
#pragma once

#include <cstdint>

namespace sluice {

// Element (row, column) is dropped if word column % 4 of Philox 4x32-10 (base/philox.h) is below `threshold`.
// The counter is (column / 4, first_sample + row), each of 64 bits, low word first; the key is `key`.
struct DropoutShape {
  int64_t rows = 0, columns = 0;
  uint64_t key = 0;
  uint64_t first_sample = 0;
  uint32_t threshold = 0;
  float scale = 1;  // factor of the elements that are kept
  // Above 1: x and out lie [rows, columns / channels_last, channels_last] in memory. The mask `kept` lies
  // [rows, columns] in any case.
  int64_t channels_last = 1;
};

struct DropoutArgs {
  DropoutShape shape;
  const float* x;
  float* out;
  uint8_t* kept;  // receives the mask: 1 for an element that is kept, else 0
};

// grad_x is 0 for an element that was dropped, whatever its `grad` is.
struct DropoutBackwardArgs {
  DropoutShape shape;
  const uint8_t* kept;
  const float* grad;
  float* grad_x;
};

}  // namespace sluice

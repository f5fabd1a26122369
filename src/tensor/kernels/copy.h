// Copying, filling and converting arrays of any element type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sluice/dtype.h"

namespace sluice {

struct CopyArgs {
  const void* from;
  void* to;  // the two may overlap
  size_t bytes;
};

// Copies all of these. No memory that is written overlaps other memory of the call.
struct CopyAllArgs {
  std::span<const CopyArgs> copies;
};

// Copies `count` blocks of `bytes` bytes, whose beginnings lie from_step and to_step bytes apart.
struct CopyBlocksArgs {
  const void* from;
  size_t from_step;
  void* to;
  size_t to_step;
  size_t bytes;
  int64_t count;
};

struct FillArgs {
  DType dtype;
  void* out;
  double value;  // rounded to nearest even; for integer types a whole number that they hold
  int64_t n;
};

}  // namespace sluice

// What a card's kernels find wrong in their inputs: a label, an id or a length out of range. A kernel cannot
// throw, so it leaves a BadInput in the card's memory, which the host reads when the work is done
// (completion.h). Kernels that change lasting state (running statistics, weights) do nothing while one lies
// there.
#pragma once

#include <cstdint>

#include "sluice/error.h"

namespace sluice::cuda {

enum class BadInputKind : int32_t { kLabel, kId, kLength };

// Lies in the card's memory, all zeros before a kernel has found something. If several inputs are out of
// range, any one of them is named.
struct BadInput {
  int32_t found;  // 1: a kernel has written the other members
  BadInputKind kind;
  uint64_t operation;  // as CudaKernels::Begin had it
  int64_t place;       // the row of a label, the place of an id, the sequence of a length
  int64_t limit;       // classes, rows, steps
  int64_t whole;       // the value, if it is of an integer type
  float number;        // the value, if it is float32
  int32_t is_number;
};

// Where the kernels of one operation leave what they find.
struct InputCheck {
  BadInput* found;  // in the card's memory
  uint64_t operation;
};

// Returns the error that the host would have thrown for it.
Error ErrorOf(const BadInput& input);

}  // namespace sluice::cuda

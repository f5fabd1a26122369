// Lookups of rows of a weight by ids, and their means over bags (the ids of one sample).
#pragma once

#include <cstdint>

#include "sluice/dtype.h"

namespace sluice {

// Ids are float32 or of an integer type; kernels throw Error(kInvalidArgument) for an id that is no whole
// number in [0, rows).
struct EmbeddingShape {
  DType id_type = DType::kFloat32;
  int64_t rows = 0, columns = 0;  // the weight's extents
  int64_t padding = -1;  // the id whose row counts as zeros, is not read and gets no gradient; -1: none
};

// out is the row of each id.
struct EmbeddingArgs {
  EmbeddingShape shape;
  const void* ids;  // [n]
  int64_t n;
  const float* weight;  // [rows, columns]
  float* out;           // [n, columns]
};

struct EmbeddingBackwardArgs {
  EmbeddingShape shape;
  const void* ids;
  int64_t n;
  const float* grad;
  float* grad_weight;  // all of it is written: zeros for the rows of other ids
};

// out is the mean of the rows of those of a bag's ids that are not padding, and zeros where all are padding.
struct EmbeddingBagArgs {
  EmbeddingShape shape;
  const void* ids;  // [n, steps]
  int64_t n, steps;
  const float* weight;  // [rows, columns]
  float* out;           // [n, columns]
};

struct EmbeddingBagBackwardArgs {
  EmbeddingShape shape;
  const void* ids;
  int64_t n, steps;
  const float* grad;
  float* grad_weight;  // as EmbeddingBackwardArgs has it
};

}  // namespace sluice

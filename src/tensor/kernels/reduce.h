// Sums and means, and what adds or spreads a row over many rows.
#pragma once

#include <cstdint>

namespace sluice {

// sums[i] = sum over j of a[i, j].
struct SumArgs {
  const float* a;  // [rows, columns]
  float* sums;     // [rows]
  int64_t rows, columns;
};

// sums[j] = sum over i of a[i, j].
struct SumOfRowsArgs {
  const float* a;  // [rows, columns]
  float* sums;     // [columns]
  int64_t rows, columns;
};

// out[i, j] += values[j].
struct AddToRowsArgs {
  const float* values;  // [columns]
  float* out;           // [rows, columns]
  int64_t rows, columns;
};

// out[i, j] = values[i].
struct FillRowsArgs {
  const float* values;  // [rows]
  float* out;           // [rows, columns]
  int64_t rows, columns;
};

// out is the mean of x over the steps.
struct MeanOfStepsArgs {
  const float* x;  // [n, steps, columns]
  float* out;      // [n, columns]
  int64_t n, steps, columns;
};

struct MeanOfStepsBackwardArgs {
  const float* grad;  // [n, columns]
  float* grad_x;      // [n, steps, columns]
  int64_t n, steps, columns;
};

}  // namespace sluice

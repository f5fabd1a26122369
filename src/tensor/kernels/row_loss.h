// Losses that compare a prediction p with a label l element by element.
#pragma once

#include <cstdint>

namespace sluice {

enum class RowLossKind : uint8_t {
  kSquare,      // (p - l)^2 / 2
  kAbsolute,    // |p - l|
  kHuber,       // (p - l)^2 / (2 rho) up to |p - l| = rho, then |p - l| - rho / 2
  kLogistic,    // max(p, 0) - p l + log(1 + exp(-|p|))
  kDivergence,  // l (log(l + 1e-12) - p); 0 where l is 0 and p -infinity
};

struct RowLossShape {
  RowLossKind kind = RowLossKind::kSquare;
  int64_t rows = 0, columns = 0;
  float rho = 1;  // > 0
};

struct RowLossArgs {
  RowLossShape shape;
  const float* prediction;  // [rows, columns]
  const float* label;       // [rows, columns]
  float* losses;            // [rows], the means over the columns
};

struct RowLossBackwardArgs {
  RowLossShape shape;
  const float* prediction;
  const float* label;
  const float* grad;  // [rows]
  float* grad_prediction;
};

}  // namespace sluice

// Rows of a matrix by their numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/dtype.h"

namespace sluice::cpu {

// The whole numbers of an array, in place of what `numbers` held; one outside [0, rows) throws and is named
// with its place.
void ReadRowNumbers(DType dtype, const void* ids, int64_t n, int64_t rows, std::vector<int64_t>* numbers);
// out[i] = weight[ids[i]] for i in [first, last).
void GatherRows(const std::vector<int64_t>& ids, const float* weight, int64_t columns, float* out,
                int64_t first, int64_t last);
// Columns [first, last) of: grad_weight = 0, then grad_weight[ids[i]] += grad[i] in order.
void ScatterRows(const std::vector<int64_t>& ids, const float* grad, float* grad_weight, int64_t rows,
                 int64_t columns, int64_t first, int64_t last);

}  // namespace sluice::cpu

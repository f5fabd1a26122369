// Rows of a matrix by their numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/kernels.h"

namespace sluice::cpu {

// The ids of an array, in place of what `numbers` held; one outside [0, rows) throws and is named with its
// place.
void ReadRowNumbers(const EmbeddingShape& shape, const void* ids, int64_t n, std::vector<int64_t>* numbers);
// What Kernels::Embedding computes: out[i] for i in [first, last).
void GatherRows(const EmbeddingShape& shape, const std::vector<int64_t>& ids, const float* weight, float* out,
                int64_t first, int64_t last);
// Columns [first, last) of: grad_weight = 0, then grad_weight[ids[i]] += grad[i] in order.
void ScatterRows(const EmbeddingShape& shape, const std::vector<int64_t>& ids, const float* grad,
                 float* grad_weight, int64_t first, int64_t last);

// How many of each bag's ids are not padding.
void CountWords(const EmbeddingShape& shape, const std::vector<int64_t>& ids, int64_t steps,
                std::vector<int64_t>* counts);
// What Kernels::EmbeddingBag computes: out[i] for i in [first, last).
void MeanRows(const EmbeddingShape& shape, const std::vector<int64_t>& ids,
              const std::vector<int64_t>& counts, const float* weight, float* out, int64_t first,
              int64_t last);
// Columns [first, last) of: grad_weight = 0, then each word's row += its bag's gradient / count, in order.
void SpreadRows(const EmbeddingShape& shape, const std::vector<int64_t>& ids,
                const std::vector<int64_t>& counts, const float* grad, float* grad_weight, int64_t first,
                int64_t last);

}  // namespace sluice::cpu

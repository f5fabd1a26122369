// Embeddings: rows of a matrix by their numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/kernels.h"

namespace sluice::cpu {

// Replaces the contents of `numbers` by the n ids. Throws Error(kInvalidArgument), which names the id and
// its place, for one that is no whole number in [0, rows).
void ReadRowNumbers(const EmbeddingShape& shape, const void* ids, int64_t n, std::vector<int64_t>* numbers);
// Computes out[i] of Kernels::Embedding for i in [first, last).
void GatherRows(const EmbeddingShape& shape, const std::vector<int64_t>& ids, const float* weight, float* out,
                int64_t first, int64_t last);
// Computes columns [first, last) of: grad_weight = 0, then grad_weight[ids[i]] += grad[i], in the order of i.
void ScatterRows(const EmbeddingShape& shape, const std::vector<int64_t>& ids, const float* grad,
                 float* grad_weight, int64_t first, int64_t last);

// Counts the ids of each bag that are not padding.
void CountIds(const EmbeddingShape& shape, const std::vector<int64_t>& ids, int64_t steps,
              std::vector<int64_t>* counts);
// Computes out[i] of Kernels::EmbeddingBag for i in [first, last).
void MeanRows(const EmbeddingShape& shape, const std::vector<int64_t>& ids,
              const std::vector<int64_t>& counts, const float* weight, float* out, int64_t first,
              int64_t last);
// Computes columns [first, last) of: grad_weight = 0, then grad_weight[id] += grad[bag] /
// counts[bag] for each id of each bag, in order.
void SpreadRows(const EmbeddingShape& shape, const std::vector<int64_t>& ids,
                const std::vector<int64_t>& counts, const float* grad, float* grad_weight, int64_t first,
                int64_t last);

}  // namespace sluice::cpu

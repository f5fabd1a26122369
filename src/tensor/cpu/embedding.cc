// Embeddings: rows of a weight by their numbers, their means over bags (the ids of one sample), and
// the gradients of both. Ids are read and checked once for each call (ReadRowNumbers), on the
// stream's thread; CpuKernels then calls the other functions for ranges of rows or columns, on the
// threads of the context's team. Invariant: a gradient's element is summed by one thread, in the
// order of the ids, so the number of threads changes no bit.
#include "tensor/cpu/embedding.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "base/simd.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/cpu/whole_numbers.h"

namespace sluice::cpu {
namespace {

SLUICE_SIMD void Add(const float* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

SLUICE_SIMD void AddScaled(float factor, const float* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

SLUICE_SIMD void AddWide(const float* from, double* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

void ClearColumns(const EmbeddingShape& s, float* grad_weight, int64_t first, int64_t last) {
  for (int64_t row = 0; row < s.rows; ++row)
    std::fill(grad_weight + row * s.columns + first, grad_weight + row * s.columns + last, 0.0f);
}

float ShareOf(int64_t count) {
  return 1.0f / static_cast<float>(std::max<int64_t>(count, 1));
}

}  // namespace

void ReadRowNumbers(const EmbeddingShape& s, const void* ids, int64_t n, std::vector<int64_t>* numbers) {
  ReadWholeNumbers(s.id_type, ids, n, s.rows, numbers, [&](const std::string& id, int64_t place) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("id ", id, " at place ", place, " is no row of [0, ", s.rows, ")"));
  });
}

void GatherRows(const EmbeddingShape& s, const std::vector<int64_t>& ids, const float* weight, float* out,
                int64_t first, int64_t last) {
  const size_t bytes = static_cast<size_t>(s.columns) * sizeof(float);
  for (int64_t i = first; i < last; ++i) {
    const int64_t id = ids[static_cast<size_t>(i)];
    if (id == s.padding)
      std::memset(out + i * s.columns, 0, bytes);
    else
      std::memcpy(out + i * s.columns, weight + id * s.columns, bytes);
  }
}

void ScatterRows(const EmbeddingShape& s, const std::vector<int64_t>& ids, const float* grad,
                 float* grad_weight, int64_t first, int64_t last) {
  ClearColumns(s, grad_weight, first, last);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == s.padding) continue;
    Add(grad + static_cast<int64_t>(i) * s.columns + first, grad_weight + ids[i] * s.columns + first,
        last - first);
  }
}

void CountIds(const EmbeddingShape& s, const std::vector<int64_t>& ids, int64_t steps,
              std::vector<int64_t>* counts) {
  for (size_t bag = 0; bag < counts->size(); ++bag) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(bag) * steps;
    (*counts)[bag] = steps - std::count(begin, begin + steps, s.padding);
  }
}

void MeanRows(const EmbeddingShape& s, const std::vector<int64_t>& ids, const std::vector<int64_t>& counts,
              const float* weight, float* out, int64_t first, int64_t last) {
  constexpr int64_t kBlock = 64;
  const size_t steps = counts.empty() ? 0 : ids.size() / counts.size();
  for (int64_t bag = first; bag < last; ++bag) {
    const auto words = std::span(ids).subspan(static_cast<size_t>(bag) * steps, steps);
    const auto number = static_cast<double>(std::max<int64_t>(counts[static_cast<size_t>(bag)], 1));
    for (int64_t column = 0; column < s.columns; column += kBlock) {
      const int64_t count = std::min(kBlock, s.columns - column);
      double sums[kBlock] = {};
      for (const int64_t word : words) {
        if (word != s.padding) AddWide(weight + word * s.columns + column, sums, count);
      }
      for (int64_t j = 0; j < count; ++j)
        out[bag * s.columns + column + j] = static_cast<float>(sums[j] / number);
    }
  }
}

void SpreadRows(const EmbeddingShape& s, const std::vector<int64_t>& ids, const std::vector<int64_t>& counts,
                const float* grad, float* grad_weight, int64_t first, int64_t last) {
  ClearColumns(s, grad_weight, first, last);
  const size_t steps = counts.empty() ? 0 : ids.size() / counts.size();
  for (size_t bag = 0; bag < counts.size(); ++bag) {
    const float* from = grad + static_cast<int64_t>(bag) * s.columns + first;
    const float share = ShareOf(counts[bag]);
    for (const int64_t word : std::span(ids).subspan(bag * steps, steps)) {
      if (word != s.padding) AddScaled(share, from, grad_weight + word * s.columns + first, last - first);
    }
  }
}

}  // namespace sluice::cpu

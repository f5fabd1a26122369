#include "tensor/cpu/embedding.h"

#include <algorithm>
#include <cstring>
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

}  // namespace

void ReadRowNumbers(DType dtype, const void* ids, int64_t n, int64_t rows, std::vector<int64_t>* numbers) {
  ReadWholeNumbers(dtype, ids, n, rows, numbers, [&](const std::string& id, int64_t place) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("id ", id, " at place ", place, " is no row of [0, ", rows, ")"));
  });
}

void GatherRows(const std::vector<int64_t>& ids, const float* weight, int64_t columns, float* out,
                int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i) {
    std::memcpy(out + i * columns, weight + ids[static_cast<size_t>(i)] * columns,
                static_cast<size_t>(columns) * sizeof(float));
  }
}

void ScatterRows(const std::vector<int64_t>& ids, const float* grad, float* grad_weight, int64_t rows,
                 int64_t columns, int64_t first, int64_t last) {
  for (int64_t row = 0; row < rows; ++row)
    std::fill(grad_weight + row * columns + first, grad_weight + row * columns + last, 0.0f);
  for (size_t i = 0; i < ids.size(); ++i) {
    Add(grad + static_cast<int64_t>(i) * columns + first, grad_weight + ids[i] * columns + first,
        last - first);
  }
}

}  // namespace sluice::cpu

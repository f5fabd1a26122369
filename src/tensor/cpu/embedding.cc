#include "tensor/cpu/embedding.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/simd.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::cpu {
namespace {

template <typename T>
void Read(const void* ids, int64_t n, int64_t rows, std::vector<int64_t>* numbers) {
  const auto* values = static_cast<const T*>(ids);
  for (int64_t i = 0; i < n; ++i) {
    const T id = values[i];
    bool whole = id >= 0 && static_cast<double>(id) < static_cast<double>(rows);
    if constexpr (std::is_floating_point_v<T>) whole = whole && id == std::floor(id);
    if (!whole) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("id ", +id, " at place ", i, " is no row of [0, ", rows, ")"));
    }
    numbers->push_back(static_cast<int64_t>(id));
  }
}

SLUICE_SIMD void Add(const float* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

}  // namespace

void ReadRowNumbers(DType dtype, const void* ids, int64_t n, int64_t rows, std::vector<int64_t>* numbers) {
  numbers->clear();
  numbers->reserve(static_cast<size_t>(n));
  switch (dtype) {
    case DType::kInt32:
      Read<int32_t>(ids, n, rows, numbers);
      break;
    case DType::kInt64:
      Read<int64_t>(ids, n, rows, numbers);
      break;
    case DType::kUInt8:
      Read<uint8_t>(ids, n, rows, numbers);
      break;
    default:
      Read<float>(ids, n, rows, numbers);
      break;
  }
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

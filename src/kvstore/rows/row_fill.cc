#include "kvstore/rows/row_fill.h"

#include <cstring>

#include "base/rng.h"
#include "tensor/types/half.h"

namespace sluice::kvstore {
namespace {

void Put(double value, DType dtype, std::byte* to) {
  const auto put = [to](auto stored) { std::memcpy(to, &stored, sizeof(stored)); };
  switch (dtype) {
    case DType::kFloat32:
      return put(static_cast<float>(value));
    case DType::kFloat64:
      return put(value);
    case DType::kFloat16:
      return put(HalfFromFloat(static_cast<float>(value)));
    case DType::kBFloat16:
      return put(BFloat16FromFloat(static_cast<float>(value)));
    case DType::kInt32:
      return put(static_cast<int32_t>(value));
    case DType::kInt64:
      return put(static_cast<int64_t>(value));
    case DType::kUInt8:
      return put(static_cast<uint8_t>(value));
  }
}

}  // namespace

void FillRow(const RowInit& init, DType dtype, int64_t row, size_t elements, std::byte* to) {
  const size_t width = SizeOf(dtype);
  Rng rng(DeriveSeed(init.seed, row));
  for (size_t i = 0; i < elements; ++i, to += width) {
    switch (init.fill) {
      case RowFill::kConstant:
        Put(init.center, dtype, to);
        break;
      case RowFill::kUniform:
        Put(rng.Uniform(init.center - init.width, init.center + init.width), dtype, to);
        break;
      case RowFill::kNormal:
        Put(init.center + init.width * rng.Normal(), dtype, to);
        break;
    }
  }
}

}  // namespace sluice::kvstore

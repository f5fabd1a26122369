#include "sluice/dtype.h"

namespace sluice {

std::string_view Name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kUInt8:
      return "uint8";
  }
  return "unknown";
}

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const DType dtype : kAllDTypes) {
    if (Name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

DLPackType ToDLPack(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * SizeOf(dtype));
  switch (dtype) {
    case DType::kInt32:
    case DType::kInt64:
      return {0, bits};
    case DType::kUInt8:
      return {1, bits};
    case DType::kBFloat16:
      return {4, bits};
    default:
      return {2, bits};
  }
}

}  // namespace sluice

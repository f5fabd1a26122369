#include "tensor/cpu/convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "tensor/types/half.h"

namespace sluice::cpu {
namespace {

template <typename T>
void FillAs(void* out, T value, int64_t n) {
  std::fill_n(static_cast<T*>(out), n, value);
}

// Rounds to odd. Rounding the result to 16 bits then gives the same as rounding
// `value` itself (Boldo, Melquiond 2008).
float ToOddFloat(double value) {
  const auto nearest = static_cast<float>(value);
  if (std::isnan(value) || nearest == value || (std::bit_cast<uint32_t>(nearest) & 1) != 0) return nearest;
  const bool rounded_up = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  return std::nextafter(nearest, rounded_up ? 0.0f : std::copysign(HUGE_VALF, nearest));
}

double Load(DType dtype, const void* from, int64_t i) {
  switch (dtype) {
    case DType::kFloat64:
      return static_cast<const double*>(from)[i];
    case DType::kFloat16:
      return ToFloat(static_cast<const Half*>(from)[i]);
    case DType::kBFloat16:
      return ToFloat(static_cast<const BFloat16*>(from)[i]);
    default:
      return static_cast<const float*>(from)[i];
  }
}

void Store(DType dtype, void* to, int64_t i, double value) {
  switch (dtype) {
    case DType::kFloat64:
      static_cast<double*>(to)[i] = value;
      return;
    case DType::kFloat16:
      static_cast<Half*>(to)[i] = HalfFromFloat(ToOddFloat(value));
      return;
    case DType::kBFloat16:
      static_cast<BFloat16*>(to)[i] = BFloat16FromFloat(ToOddFloat(value));
      return;
    default:
      static_cast<float*>(to)[i] = static_cast<float>(value);
      return;
  }
}

}  // namespace

void Fill(DType dtype, void* out, double value, int64_t n) {
  switch (dtype) {
    case DType::kFloat32:
      return FillAs(out, static_cast<float>(value), n);
    case DType::kFloat64:
      return FillAs(out, value, n);
    case DType::kFloat16:
      return FillAs(out, HalfFromFloat(ToOddFloat(value)), n);
    case DType::kBFloat16:
      return FillAs(out, BFloat16FromFloat(ToOddFloat(value)), n);
    case DType::kInt32:
      return FillAs(out, static_cast<int32_t>(value), n);
    case DType::kInt64:
      return FillAs(out, static_cast<int64_t>(value), n);
    case DType::kUInt8:
      return FillAs(out, static_cast<uint8_t>(value), n);
  }
}

void Convert(DType from_type, const void* from, DType to_type, void* to, int64_t i, int64_t end) {
  const auto is_16_bits = [](DType type) { return type == DType::kFloat16 || type == DType::kBFloat16; };
  const auto n = static_cast<size_t>(end - i);
  if (is_16_bits(from_type) && to_type == DType::kFloat32) {
    const auto widen = from_type == DType::kFloat16 ? HalfToFloat : BFloat16ToFloat;
    return widen(static_cast<const std::byte*>(from) + 2 * i, static_cast<float*>(to) + i, n);
  }
  if (from_type == DType::kFloat32 && is_16_bits(to_type)) {
    const auto round = to_type == DType::kFloat16 ? FloatToHalf : FloatToBFloat16;
    return round(static_cast<const float*>(from) + i, static_cast<std::byte*>(to) + 2 * i, n);
  }
  for (; i < end; ++i) Store(to_type, to, i, Load(from_type, from, i));
}

}  // namespace sluice::cpu

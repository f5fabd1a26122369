// Copying, filling and converting arrays of any element type. Conversions between float32 and a 16-bit type
// are vectorised loops (types/half.h); other floating types go element by element through float64. It owns
// nothing. Invariant: a value is rounded once, to nearest even. NDArray, access.cc, layout.cc and operations
// call the methods, in work on the stream's thread; conversions run for pieces of the array, on the threads
// of the context's team.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "tensor/cpu/kernels.h"
#include "tensor/cpu/parallel.h"
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

template <typename T>
void FromIntegers(const void* from, float* to, size_t n) {
  const T* integers = static_cast<const T*>(from);
  for (size_t i = 0; i < n; ++i) to[i] = static_cast<float>(integers[i]);
}

// Converts elements [i, end).
void ConvertPiece(const ConvertArgs& args, int64_t i, int64_t end) {
  const auto is_16_bits = [](DType type) { return type == DType::kFloat16 || type == DType::kBFloat16; };
  const auto n = static_cast<size_t>(end - i);
  if (!IsFloating(args.from_type)) {
    const auto convert = args.from_type == DType::kInt32   ? FromIntegers<int32_t>
                         : args.from_type == DType::kInt64 ? FromIntegers<int64_t>
                                                           : FromIntegers<uint8_t>;
    return convert(static_cast<const std::byte*>(args.from) + static_cast<size_t>(i) * SizeOf(args.from_type),
                   static_cast<float*>(args.to) + i, n);
  }
  if (is_16_bits(args.from_type) && args.to_type == DType::kFloat32) {
    const auto widen = args.from_type == DType::kFloat16 ? HalfToFloat : BFloat16ToFloat;
    return widen(static_cast<const std::byte*>(args.from) + 2 * i, static_cast<float*>(args.to) + i, n);
  }
  if (args.from_type == DType::kFloat32 && is_16_bits(args.to_type)) {
    const auto round = args.to_type == DType::kFloat16 ? FloatToHalf : FloatToBFloat16;
    return round(static_cast<const float*>(args.from) + i, static_cast<std::byte*>(args.to) + 2 * i, n);
  }
  for (; i < end; ++i) Store(args.to_type, args.to, i, Load(args.from_type, args.from, i));
}

}  // namespace

void CpuKernels::Copy(const CopyArgs& args) {
  if (args.bytes > 0) std::memmove(args.to, args.from, args.bytes);  // views of one array may overlap
}

void CpuKernels::CopyBlocks(const CopyBlocksArgs& args) {
  if (args.bytes == 0) return;
  const auto* source = static_cast<const std::byte*>(args.from);
  auto* target = static_cast<std::byte*>(args.to);
  for (int64_t i = 0; i < args.count; ++i)
    std::memcpy(target + static_cast<size_t>(i) * args.to_step,
                source + static_cast<size_t>(i) * args.from_step, args.bytes);
}

void CpuKernels::Fill(const FillArgs& args) {
  const double value = args.value;
  switch (args.dtype) {
    case DType::kFloat32:
      return FillAs(args.out, static_cast<float>(value), args.n);
    case DType::kFloat64:
      return FillAs(args.out, value, args.n);
    case DType::kFloat16:
      return FillAs(args.out, HalfFromFloat(ToOddFloat(value)), args.n);
    case DType::kBFloat16:
      return FillAs(args.out, BFloat16FromFloat(ToOddFloat(value)), args.n);
    case DType::kInt32:
      return FillAs(args.out, static_cast<int32_t>(value), args.n);
    case DType::kInt64:
      return FillAs(args.out, static_cast<int64_t>(value), args.n);
    case DType::kUInt8:
      return FillAs(args.out, static_cast<uint8_t>(value), args.n);
  }
}

void CpuKernels::Convert(const ConvertArgs& args) {
  ParallelFor(args.n, kGrain, [&](int64_t i, int64_t end) { ConvertPiece(args, i, end); });
}

}  // namespace sluice::cpu

// Converting arrays of any element type. Conversions between float32 and a 16-bit type are vectorised loops
// (types/half.h); other floating types go element by element through float64. It owns nothing. Invariant: a
// value is rounded once, to nearest even. NDArray and operations call it, in work on the stream's thread;
// pieces of the array are converted on the threads of the context's team.
#include <cstddef>

#include "tensor/cpu/kernels.h"
#include "tensor/cpu/parallel.h"
#include "tensor/cpu/to_odd_float.h"
#include "tensor/types/half.h"

namespace sluice::cpu {
namespace {

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

void CpuKernels::Convert(const ConvertArgs& args) {
  ParallelFor(args.n, kGrain, [&](int64_t i, int64_t end) { ConvertPiece(args, i, end); });
}

}  // namespace sluice::cpu

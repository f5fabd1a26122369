// Copying and filling arrays of any element type. It owns nothing. NDArray, access.cc, layout.cc and
// operations call the methods, in work on the stream's thread.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "tensor/cpu/kernels.h"
#include "tensor/cpu/to_odd_float.h"
#include "tensor/types/half.h"

namespace sluice::cpu {
namespace {

template <typename T>
void FillAs(void* out, T value, int64_t n) {
  std::fill_n(static_cast<T*>(out), n, value);
}

}  // namespace

void CpuKernels::Copy(const CopyArgs& args) {
  if (args.bytes > 0) std::memmove(args.to, args.from, args.bytes);  // views of one array may overlap
}

void CpuKernels::CopyAll(const CopyAllArgs& args) {
  for (const CopyArgs& copy : args.copies) Copy(copy);
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

}  // namespace sluice::cpu

// The sum over workers: n received frames, in the order given, are summed into one block. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "compression/codec.h"
#include "sluice/dtype.h"

namespace sluice::kvstore {

using compression::Encoded;

// Element i of a frame at any alignment; compilers turn it into plain vector loads.
template <typename T>
inline T LoadAt(const std::byte* from, size_t i) {
  T value;
  std::memcpy(&value, from + i * sizeof(T), sizeof(T));
  return value;
}

// out[i] = sources[0][first + i] + sources[1][first + i] + ... for i < n, in that order. The
// sources, at least one, are frames of `dtype` elements as they were received, at any
// alignment. Those of float32, float16 and bfloat16 may be compressed, each in its own way;
// `first` must then be a multiple of compression::kAligned. 16-bit floats are summed in float.
void SumBlock(DType dtype, std::span<const Encoded> sources, size_t first, size_t n,
              float* out);  // float32, float16, bfloat16
void SumBlock(std::span<const Encoded> sources, size_t first, size_t n, double* out);  // float64
// Integers wrap as unsigned ones do.
void SumBlock(std::span<const Encoded> sources, size_t first, size_t n, int32_t* out);
void SumBlock(std::span<const Encoded> sources, size_t first, size_t n, int64_t* out);
void SumBlock(std::span<const Encoded> sources, size_t first, size_t n, uint8_t* out);

}  // namespace sluice::kvstore

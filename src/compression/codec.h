// Gradients as they travel: encoded by the worker that pushes, decoded by the server that sums. Byte formats
// are in docs/design/compression.md. Pure arithmetic on one part of a key; only float32, float16 and bfloat16
// keys are ever encoded (Applies).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/buffer.h"
#include "sluice/compression.h"
#include "sluice/dtype.h"

namespace sluice::compression {

// Whether keys of this dtype are encoded. Others travel as they are, and so do those that would win nothing:
// 16-bit floats under fp16 and bf16, and under topk what is chosen of a part where it takes, with its places,
// no less than all of it.
bool Applies(const GradientCompression& how, DType dtype);

// Whether weights of this dtype can travel so: float32 ones as fp16 and bf16, others as they are.
inline bool IsOfWeights(Compression as, DType dtype) {
  const bool rounds = as == Compression::kFloat16 || as == Compression::kBFloat16;
  return as == Compression::kNone || (rounds && dtype == DType::kFloat32);
}

// Of an encoded part of `elements` elements. `how` applies to `dtype`, or is kNone.
size_t EncodedBytes(const GradientCompression& how, DType dtype, size_t elements);

// Writes EncodedBytes of gradient + residual to `out`, at any alignment, and leaves in `residual` what these
// do not say. kNone sends all of it. `scale` multiplies what 2bit and 1bit go by: the threshold and the 1.
// `times` multiplies a gradient of 16-bit floats.
void Encode(const GradientCompression& how, DType dtype, const std::byte* gradient, size_t elements,
            float* residual, std::byte* out, float scale = 1, float times = 1);

// Of weights, which leave no residual: only fp16 and bf16. What is finite stays so: beyond fp16's range it is
// the largest number of it.
void EncodeWeights(Compression as, const float* weights, size_t elements, std::byte* out);

// A part as it came.
struct Encoded {
  const std::byte* data = nullptr;
  size_t size = 0;
  Compression type = Compression::kNone;
  float scale = 1;  // multiplies its elements: of 16-bit floats that are not compressed
};

// Whether bytes from the network are a part of `elements` elements of `dtype`. Empty: they are; else why not.
std::string InvalidReason(const Encoded& part, DType dtype, size_t elements);

// out[i] = element first + i, for i < n. Valid parts only; `first` is a multiple of kAligned.
void Decode(const Encoded& part, DType dtype, size_t first, size_t n, float* out);
// out[i] += element first + i.
void AddDecoded(const Encoded& part, DType dtype, size_t first, size_t n, float* out);
inline constexpr size_t kAligned = 16;  // elements

}  // namespace sluice::compression

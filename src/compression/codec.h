// Encodes and decodes gradients: the worker that pushes encodes them, the server that sums decodes them.
// docs/design/compression.md describes the byte formats. The functions are pure arithmetic on one part of a
// key, and thread-safe. Only float32, float16 and bfloat16 keys are ever encoded (Applies).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/buffer.h"
#include "sluice/compression.h"
#include "sluice/dtype.h"

namespace sluice::compression {

// Whether gradients of keys of this dtype are encoded. Others travel unchanged, and so do those that encoding
// would not make smaller: 16-bit floats with fp16 and bf16, and topk at ratios at which the chosen elements
// and their places take as many bytes as the whole part.
bool Applies(const GradientCompression& how, DType dtype);

// Whether weights of this dtype can travel as `as`: float32 weights as kNone, fp16
// or bf16, others as kNone alone.
inline bool CanEncodeWeights(Compression as, DType dtype) {
  const bool rounds = as == Compression::kFloat16 || as == Compression::kBFloat16;
  return as == Compression::kNone || (rounds && dtype == DType::kFloat32);
}

// Returns the size of an encoded part of `elements` elements. `how` must apply to `dtype`, or be kNone.
size_t EncodedBytes(const GradientCompression& how, DType dtype, size_t elements);

// Encodes gradient + residual into EncodedBytes bytes at `out`, at any alignment, and leaves in
// `residual` the difference that the encoding does not represent. kNone sends the whole sum in the key's
// dtype. `scale` multiplies the threshold of 2bit and 1bit, and the number 1 that 1bit sends. `times`
// multiplies a gradient of 16-bit floats.
void Encode(const GradientCompression& how, DType dtype, const std::byte* gradient, size_t elements,
            float* residual, std::byte* out, float scale = 1, float times = 1);

// Encodes weights as fp16 or bf16, without a residual. Finite weights stay finite: those beyond the
// type's range become its largest number.
void EncodeWeights(Compression as, const float* weights, size_t elements, std::byte* out);

// An encoded part, as it was received.
struct Encoded {
  const std::byte* data = nullptr;
  size_t size = 0;
  Compression type = Compression::kNone;
  float scale = 1;  // multiplies the decoded elements of 16-bit floats that are not compressed
};

// Checks bytes from the network. Returns an empty text if they are a part of `elements` elements of `dtype`,
// and otherwise the reason why not.
std::string InvalidReason(const Encoded& part, DType dtype, size_t elements);

// Sets out[i] to element first + i, for i < n. The part must be valid (InvalidReason), and `first` a multiple
// of kAligned unless the part is kNone.
void Decode(const Encoded& part, DType dtype, size_t first, size_t n, float* out);
// As Decode, but adds the elements to out.
void AddDecoded(const Encoded& part, DType dtype, size_t first, size_t n, float* out);
inline constexpr size_t kAligned = 16;  // elements

}  // namespace sluice::compression

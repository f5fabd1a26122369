// Gradient compression: pushes send fewer bytes in place of a gradient's values.
//
// Each type keeps what it could not send, the residual, at the sender and adds it to the next gradient of the
// same key (error feedback: Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014; Karimireddy
// et al., "Error Feedback Fixes SignSGD", 2019). So nothing is lost, it arrives later. With r for the
// residual plus the gradient, element by element:
//
//   2bit   sends +threshold where r >= threshold, -threshold where r <= -threshold, else 0; 1/16 of the bytes
//   1bit   sends +1 where r > threshold, else -1; 1/32 of the bytes. 2bit and 1bit are those of MXNet
//          (src/kvstore/gradient_compression-inl.h), so the learning rate has to fit the threshold or the 1
//   fp16   sends r rounded to a 16-bit float, at most 65,504 of it at a time; half the bytes
//   bf16   the same with bfloat16
//   topk   sends r where its absolute value is largest: in each part of a key (up to 1 MiB) `ratio` of the
//          elements, at least one (Aji and Heafield, "Sparse Communication for Distributed Gradient Descent",
//          2017). From a ratio of 1/2 on (16-bit keys: 1/4) it sends the gradient as it is, which takes no
//          more bytes
//
// The threshold, and the 1 of 1bit, refer to a key's first compressed push. For a push whose round divides by
// another number, such as the samples of an uneven last batch or a smaller divisor, they and the residual are
// scaled in proportion. A push without samples sends its zeros uncompressed and leaves the residual as it is.
//
// Values that are not finite never stay in a residual. topk, fp16 and bf16 send them as they are. 2bit and
// 1bit have no code for them: the whole part of the key arrives as NaN, so that a diverging training shows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/error.h"

namespace sluice {

enum class Compression : uint8_t { kNone, k2Bit, k1Bit, kFloat16, kBFloat16, kTopK };

std::string_view Name(Compression type);  // "none", "2bit", "1bit", "fp16", "bf16", "topk"
// Throws Error(kInvalidArgument), which lists the names, for any other name.
Compression CompressionFromName(const std::string& name);

// The compression of pushes, and of the weights that come back.
struct GradientCompression {
  Compression type = Compression::kNone;
  // With kFloat16 or kBFloat16, Pull and PushPull transfer float32 weights rounded to that type, in half the
  // bytes; a weight beyond the range of fp16 becomes its largest number. The weights on the servers stay
  // float32. Only weights that the store's optimiser updates are rounded; sums of gradients are not. Nor is
  // the initial value of a key, for a worker that found the key without updates and has not yet pushed it.
  Compression weights = Compression::kNone;
  float threshold = 0.5f;  // 2bit: must be above 0; 1bit: r above it is sent as +1
  float ratio = 0.01f;     // topk: in (0, 1]
  bool operator==(const GradientCompression&) const = default;
};

// Returns which field is invalid and which values it may have; empty if the compression is valid.
std::string InvalidReason(const GradientCompression& compression);

}  // namespace sluice

// Gradient compression: what a push sends in place of a gradient's numbers.
//
// Each type keeps at the sender what it could not send, the residual, and adds it to the next gradient of the
// same key (error feedback: Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014; Karimireddy
// et al., "Error Feedback Fixes SignSGD", 2019): nothing is lost, it arrives later. With r the residual plus
// the gradient, element by element:
//
//   2bit   sends +threshold where r >= threshold, -threshold where r <= -threshold, else 0; 1/16 of the bytes
//   1bit   sends +1 where r > threshold, else -1; 1/32 of the bytes. Both as MXNet's
//          (src/kvstore/gradient_compression-inl.h), so a learning rate goes with the threshold or with 1
//   fp16   sends r rounded to a 16-bit float, at most 65,504 of it at a time; half the bytes
//   bf16   the same with bfloat16
//   topk   sends r where it is largest: of each part of a key (up to 1 MiB) `ratio` of the elements, at least
//          one (Aji and Heafield, "Sparse Communication for Distributed Gradient Descent", 2017);
//          from a ratio of 1/2 on (16-bit keys: 1/4) everything as it is, which takes no more bytes
//
// The threshold, and 1bit's 1, are of a key's first compressed push: where a round divides by less, the
// samples of an uneven last batch or a smaller divisor, what stands for them, and what was kept, are smaller
// likewise. A push without a sample sends zeros as they are, and keeps what is kept.
//
// What is not finite stays in no residual. topk, fp16 and bf16 send it as it is; 2bit and 1bit have no code
// for it: the part of the key that it lies in arrives as NaN, so that a training that diverges shows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/error.h"

namespace sluice {

enum class Compression : uint8_t { kNone, k2Bit, k1Bit, kFloat16, kBFloat16, kTopK };

std::string_view Name(Compression type);  // "none", "2bit", "1bit", "fp16", "bf16", "topk"
// Error(kInvalidArgument) that lists the names.
Compression CompressionFromName(const std::string& name);

// Of pushes, and of the weights that come back.
struct GradientCompression {
  Compression type = Compression::kNone;
  // kFloat16 or kBFloat16: Pull and PushPull bring float32 weights rounded to it, half the bytes; what is
  // beyond fp16's range as its largest number. The servers' own stay float32. Only what this store's
  // optimiser updates: sums of gradients come as they are. So does what Init has made, to a worker that has
  // found the key without an update, until it pushes it.
  Compression weights = Compression::kNone;
  float threshold = 0.5f;  // 2bit: above 0; 1bit: where +1 begins
  float ratio = 0.01f;     // topk: in (0, 1]
  bool operator==(const GradientCompression&) const = default;
};

// Empty: sound; else which field is wrong, and what it may be.
std::string InvalidReason(const GradientCompression& compression);

}  // namespace sluice

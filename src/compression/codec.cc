// Chooses the arithmetic of a compression type (bits.h, halves.h, top_k.h) and adds what they share: the
// float32 head of 2bit and 1bit, 16-bit gradients, which are added to the residual in float32, and blocks
// that stay in the first-level cache. Encode runs on a worker, on the thread that
// worker/push/compressor.cc enqueues it on; Decode and AddDecoded run on a server's threads while a round
// closes (kvstore/update). No state.
#include "compression/codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/simd.h"
#include "base/strings.h"
#include "compression/bits.h"
#include "compression/halves.h"
#include "compression/top_k.h"
#include "tensor/types/half.h"

namespace sluice::compression {
namespace {

constexpr size_t kBlock = 2048;          // elements; a block stays in the first-level cache
constexpr size_t kHead = sizeof(float);  // bytes: 2bit and 1bit begin with what a set bit stands for

bool Is16Bit(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

// Returns the dtype that elements travel as. It is kFloat32 for 2bit, 1bit and
// topk, whose formats are their own.
DType TravelsAs(Compression type, DType dtype) {
  if (type == Compression::kFloat16) return DType::kFloat16;
  if (type == Compression::kBFloat16) return DType::kBFloat16;
  return type == Compression::kNone ? dtype : DType::kFloat32;
}

size_t ChosenOf(double ratio, size_t elements) {
  const auto k = static_cast<size_t>(std::llround(ratio * static_cast<double>(elements)));
  return std::clamp<size_t>(k, std::min<size_t>(1, elements), elements);
}

SLUICE_SIMD void AddUnaligned(const std::byte* from, size_t n, float* to) {
  for (size_t i = 0; i < n; ++i) {
    float value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    to[i] += value;
  }
}

SLUICE_SIMD void MultiplyAdd(const float* from, float by, size_t n, bool add, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = from[i] * by + (add ? out[i] : 0.0f);
}

// Sets `out` to the elements times `scale`, or adds them.
void DecodeScaledHalves(DType as, const std::byte* from, float scale, size_t n, bool add, float* out) {
  if (scale == 1) return DecodeHalves(as, from, n, add, out);
  float block[kBlock];
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t here = std::min(kBlock, n - first);
    DecodeHalves(as, from + first * SizeOf(as), here, false, block);
    MultiplyAdd(block, scale, here, add, out + first);
  }
}

void AddGradient(DType dtype, const std::byte* gradient, float times, size_t n, float* r) {
  if (dtype == DType::kFloat32) return AddUnaligned(gradient, n, r);
  DecodeScaledHalves(dtype, gradient, times, n, true, r);
}

float HeadOf(const std::byte* data) {
  float value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

// Writes a head, then calls `encode(r, n, out)` for each block of elements, whose bits take `bytes(n)` bytes.
// The head is `one`, or NaN if an element is not finite.
template <typename EncodeBlock, typename BytesOf>
void EncodeBits(DType dtype, const std::byte* gradient, float times, size_t elements, float one,
                float* residual, std::byte* out, EncodeBlock&& encode, BytesOf&& bytes) {
  bool finite = true;
  std::byte* to = out + kHead;
  for (size_t first = 0; first < elements; first += kBlock) {
    const size_t n = std::min(kBlock, elements - first);
    AddGradient(dtype, gradient + first * SizeOf(dtype), times, n, residual + first);
    finite &= encode(residual + first, n, to);
    to += bytes(n);
  }
  const float head = finite ? one : std::numeric_limits<float>::quiet_NaN();
  std::memcpy(out, &head, sizeof head);
}

void EncodePlain(DType dtype, DType as, const std::byte* gradient, float times, size_t elements,
                 float* residual, std::byte* out) {
  for (size_t first = 0; first < elements; first += kBlock) {
    const size_t n = std::min(kBlock, elements - first);
    float* r = residual + first;
    AddGradient(dtype, gradient + first * SizeOf(dtype), times, n, r);
    if (Is16Bit(as)) {
      EncodeHalves(as, r, n, out + first * SizeOf(as));
    } else {
      std::memcpy(out + first * sizeof(float), r, n * sizeof(float));
      std::fill(r, r + n, 0.0f);
    }
  }
}

// Decodes the bits after the head, without the first `skipped` bytes of them. If
// the head is NaN, all elements are.
template <typename DecodeBits>
void DecodeBehindHead(const Encoded& part, size_t skipped, size_t n, bool add, float* out,
                      DecodeBits&& decode) {
  const float one = HeadOf(part.data);
  if (std::isnan(one)) return std::fill(out, out + n, one);
  decode(part.data + kHead + skipped, one, n, add, out);
}

void DecodeInto(const Encoded& part, DType dtype, size_t first, size_t n, bool add, float* out) {
  SLUICE_CHECK(first % kAligned == 0 || part.type == Compression::kNone);
  if (n == 0) return;
  switch (part.type) {
    case Compression::k2Bit:
      return DecodeBehindHead(part, Bytes2Bit(first), n, add, out, Decode2Bit);
    case Compression::k1Bit:
      return DecodeBehindHead(part, Bytes1Bit(first), n, add, out, Decode1Bit);
    case Compression::kTopK:
      return DecodeTopK(part.data, part.size / BytesTopK(1), first, n, add, out);
    case Compression::kNone:
    case Compression::kFloat16:
    case Compression::kBFloat16:
      break;
  }
  const DType as = TravelsAs(part.type, dtype);
  const std::byte* from = part.data + first * SizeOf(as);
  if (Is16Bit(as)) return DecodeScaledHalves(as, from, part.scale, n, add, out);
  if (add) return AddUnaligned(from, n, out);
  std::memcpy(out, from, n * sizeof(float));
}

std::string InvalidBitsReason(const Encoded& part, size_t elements, bool valid) {
  const float one = HeadOf(part.data);
  if (!(std::isnan(one) || (one > 0 && std::isfinite(one))))
    return StrCat("its bits stand for ", one, "; that must be above 0 and finite");
  return valid ? "" : StrCat("its bits are no numbers of ", elements, " elements");
}

// Whether gradients of keys of this dtype may travel as `type`.
bool CanEncodeGradients(Compression type, DType dtype) {
  if (type == Compression::kNone) return false;
  if (Is16Bit(dtype)) return type != Compression::kFloat16 && type != Compression::kBFloat16;
  return dtype == DType::kFloat32;
}

}  // namespace

bool Applies(const GradientCompression& how, DType dtype) {
  if (how.type == Compression::kTopK) {
    const auto bytes_chosen = static_cast<float>(BytesTopK(1)),
               bytes_plain = static_cast<float>(SizeOf(dtype));
    if (how.ratio * bytes_chosen >= bytes_plain) return false;
  }
  return CanEncodeGradients(how.type, dtype);
}

size_t EncodedBytes(const GradientCompression& how, DType dtype, size_t elements) {
  switch (how.type) {
    case Compression::k2Bit:
      return kHead + Bytes2Bit(elements);
    case Compression::k1Bit:
      return kHead + Bytes1Bit(elements);
    case Compression::kTopK:
      return BytesTopK(ChosenOf(how.ratio, elements));
    case Compression::kNone:
    case Compression::kFloat16:
    case Compression::kBFloat16:
      break;
  }
  return elements * SizeOf(TravelsAs(how.type, dtype));
}

void Encode(const GradientCompression& how, DType dtype, const std::byte* gradient, size_t elements,
            float* residual, std::byte* out, float scale, float times) {
  const float threshold = how.threshold * scale;
  switch (how.type) {
    case Compression::k2Bit:
      return EncodeBits(
          dtype, gradient, times, elements, threshold, residual, out,
          [&](float* r, size_t n, std::byte* to) { return Encode2Bit(threshold, r, n, to); }, Bytes2Bit);
    case Compression::k1Bit:
      return EncodeBits(
          dtype, gradient, times, elements, scale, residual, out,
          [&](float* r, size_t n, std::byte* to) { return Encode1Bit(threshold, scale, r, n, to); },
          Bytes1Bit);
    case Compression::kTopK:
      AddGradient(dtype, gradient, times, elements, residual);
      return EncodeTopK(ChosenOf(how.ratio, elements), residual, elements, out);
    case Compression::kNone:
    case Compression::kFloat16:
    case Compression::kBFloat16:
      return EncodePlain(dtype, TravelsAs(how.type, dtype), gradient, times, elements, residual, out);
  }
}

void EncodeWeights(Compression as, const float* weights, size_t elements, std::byte* out) {
  RoundHalves(as == Compression::kFloat16 ? DType::kFloat16 : DType::kBFloat16, weights, elements, out);
}

std::string InvalidReason(const Encoded& part, DType dtype, size_t elements) {
  if (part.type != Compression::kNone && !CanEncodeGradients(part.type, dtype))
    return StrCat("a ", Name(dtype), " key does not travel as ", Name(part.type));
  if (part.type == Compression::kTopK) {
    const size_t k = part.size / BytesTopK(1);
    if (part.size != BytesTopK(k) || k > elements)
      return StrCat(part.size, " bytes came as topk of ", elements, " elements");
    return HasAscendingPlaces(part.data, k, elements) ? ""
                                                      : "topk's places do not ascend, or lie beyond the part";
  }
  const size_t expected = EncodedBytes({.type = part.type}, dtype, elements);
  if (part.size != expected) {
    const std::string as = part.type == Compression::kNone ? "" : StrCat(" as ", Name(part.type));
    return StrCat(part.size, " bytes came, the part has ", expected, as);
  }
  if (part.type == Compression::k2Bit)
    return InvalidBitsReason(part, elements, HasOnly2BitCodes(part.data + kHead, elements));
  if (part.type == Compression::k1Bit)
    return InvalidBitsReason(part, elements, HasOnly1BitCodes(part.data + kHead, elements));
  return {};
}

void Decode(const Encoded& part, DType dtype, size_t first, size_t n, float* out) {
  DecodeInto(part, dtype, first, n, false, out);
}

void AddDecoded(const Encoded& part, DType dtype, size_t first, size_t n, float* out) {
  DecodeInto(part, dtype, first, n, true, out);
}

}  // namespace sluice::compression

#include "base/non_temporal_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace sluice {

#if defined(__SSE2__)

namespace {

constexpr size_t kLine = 64;

// Copies whole cache lines with 16-byte stores; `to` is aligned to a line.
void StreamNarrow(std::byte* to, const std::byte* from, size_t lines) {
  for (; lines > 0; --lines, to += kLine, from += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from);
    auto* target = reinterpret_cast<__m128i*>(to);
    for (size_t i = 0; i < kLine / sizeof(__m128i); ++i)
      _mm_stream_si128(target + i, _mm_loadu_si128(source + i));
  }
}
// Copies whole cache lines with 32-byte stores: two stores fill a line sooner than four.
__attribute__((target("avx"))) void StreamWide(std::byte* to, const std::byte* from, size_t lines) {
  for (; lines > 0; --lines, to += kLine, from += kLine) {
    const auto* source = reinterpret_cast<const __m256i*>(from);
    auto* target = reinterpret_cast<__m256i*>(to);
    for (size_t i = 0; i < kLine / sizeof(__m256i); ++i)
      _mm256_stream_si256(target + i, _mm256_loadu_si256(source + i));
  }
}

}  // namespace

void NonTemporalCopyPiece(std::byte* to, const std::byte* from, size_t size) {
  const size_t before = std::min(size, -reinterpret_cast<uintptr_t>(to) % kLine);
  const size_t lines = (size - before) / kLine, streamed = before + lines * kLine;
  if (before > 0) std::memcpy(to, from, before);
  __builtin_cpu_supports("avx") ? StreamWide(to + before, from + before, lines)
                                : StreamNarrow(to + before, from + before, lines);
  if (streamed < size) std::memcpy(to + streamed, from + streamed, size - streamed);
}

void FinishNonTemporalCopies() {
  _mm_sfence();  // non-temporal stores are not ordered by locks or release stores
}

#else

void NonTemporalCopyPiece(std::byte* to, const std::byte* from, size_t size) {
  std::memcpy(to, from, size);
}
void FinishNonTemporalCopies() {}

#endif

void NonTemporalCopy(std::byte* to, const std::byte* from, size_t size) {
  NonTemporalCopyPiece(to, from, size);
  FinishNonTemporalCopies();
}

}  // namespace sluice

#include "base/copy_around.h"

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

// Whole lines; `to` begins one.
void StreamNarrow(std::byte* to, const std::byte* from, size_t lines) {
  for (; lines > 0; --lines, to += kLine, from += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from);
    auto* target = reinterpret_cast<__m128i*>(to);
    for (size_t i = 0; i < kLine / sizeof(__m128i); ++i)
      _mm_stream_si128(target + i, _mm_loadu_si128(source + i));
  }
}
// A line in two stores rather than four leaves sooner.
__attribute__((target("avx"))) void StreamWide(std::byte* to, const std::byte* from, size_t lines) {
  for (; lines > 0; --lines, to += kLine, from += kLine) {
    const auto* source = reinterpret_cast<const __m256i*>(from);
    auto* target = reinterpret_cast<__m256i*>(to);
    for (size_t i = 0; i < kLine / sizeof(__m256i); ++i)
      _mm256_stream_si256(target + i, _mm256_loadu_si256(source + i));
  }
}

}  // namespace

void CopyPieceAround(std::byte* to, const std::byte* from, size_t size) {
  const size_t before = std::min(size, -reinterpret_cast<uintptr_t>(to) % kLine);
  const size_t lines = (size - before) / kLine, streamed = before + lines * kLine;
  if (before > 0) std::memcpy(to, from, before);
  __builtin_cpu_supports("avx") ? StreamWide(to + before, from + before, lines)
                                : StreamNarrow(to + before, from + before, lines);
  if (streamed < size) std::memcpy(to + streamed, from + streamed, size - streamed);
}

void EndCopiesAround() {
  _mm_sfence();  // these stores obey no lock by themselves
}

#else

void CopyPieceAround(std::byte* to, const std::byte* from, size_t size) {
  std::memcpy(to, from, size);
}
void EndCopiesAround() {}

#endif

void CopyAround(std::byte* to, const std::byte* from, size_t size) {
  CopyPieceAround(to, from, size);
  EndCopiesAround();
}

}  // namespace sluice

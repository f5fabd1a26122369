// Sums and maxima that the compiler vectorises although their order is fixed: 16 partial
// results side by side, which are always combined in the same order, so that the bits are
// the same on every instruction set (base/simd.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/simd.h"

namespace sluice::cpu {

inline constexpr int64_t kLanes = 16;

// Returns the sum of term(i) over [0, n). Chunks of 4096 terms are summed in float, and their sums in double.
template <typename Term>
SLUICE_INLINE double SumOf(int64_t n, Term&& term) {
  constexpr int64_t kChunk = 4096;
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t end = std::min(begin + kChunk, n);
    float lanes[kLanes] = {};
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
    }
    for (int64_t lane = 0; i < end; ++i, ++lane) lanes[lane] += term(i);
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    sum += lanes[0];
  }
  return sum;
}

// Returns the largest of n > 0 values. The result is NaN if the first value is; any other NaN is ignored.
SLUICE_INLINE float MaxOf(const float* a, int64_t n) {
  float lanes[kLanes];
  for (float& lane : lanes) lane = a[0];
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = a[i + lane] > lanes[lane] ? a[i + lane] : lanes[lane];
  }
  for (int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] = a[i] > lanes[lane] ? a[i] : lanes[lane];
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane)
      lanes[lane] = lanes[lane + half] > lanes[lane] ? lanes[lane + half] : lanes[lane];
  }
  return lanes[0];
}

}  // namespace sluice::cpu

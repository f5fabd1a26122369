// Arithmetic on arrays of n elements. The result may be written over an input.
#pragma once

#include <cstdint>

namespace sluice {

// out = alpha a + beta b.
struct CombineArgs {
  float alpha;
  const float* a;
  float beta;
  const float* b;
  float* out;
  int64_t n;
};

// out = a b.
struct MultiplyArgs {
  const float *a, *b;
  float* out;
  int64_t n;
};

// out = a / b. `scalar` takes the place of an array that is null.
struct DivideArgs {
  const float* a = nullptr;
  const float* b = nullptr;
  float scalar = 0;
  float* out;
  int64_t n;
};

// out = scale a + shift.
struct AffineArgs {
  const float* a;
  float scale, shift;
  float* out;
  int64_t n;
};

}  // namespace sluice

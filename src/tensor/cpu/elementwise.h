// Loops over arrays that several kernels are made of, vectorised by the compiler.
#pragma once

#include <cstdint>

namespace sluice::cpu {

// out = alpha a + beta b.
void Combine(float alpha, const float* a, float beta, const float* b, float* out, int64_t n);
// out = scale a + shift.
void Affine(const float* a, float scale, float shift, float* out, int64_t n);
// out[j] = sum over rows of a[row, j].
void SumRows(const float* a, float* out, int64_t rows, int64_t columns);

}  // namespace sluice::cpu

// Elementwise loops of Kernels (tensor/kernels.h has the formulas), vectorised by the compiler.
#pragma once

#include <cstdint>

namespace sluice::cpu {

void Combine(float alpha, const float* a, float beta, const float* b, float* out, int64_t n);
void Multiply(const float* a, const float* b, float* out, int64_t n);
// out = a / b, where a null pointer stands for the scalar in place of that array.
void Divide(const float* a, const float* b, float scalar, float* out, int64_t n);
void Affine(const float* a, float scale, float shift, float* out, int64_t n);
double Sum(const float* a, int64_t n);  // adds up in double
// out[j] = sum over rows of a[row, j].
void SumRows(const float* a, float* out, int64_t rows, int64_t columns);

}  // namespace sluice::cpu

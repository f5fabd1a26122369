#include "tensor/cpu/recurrent_cells.h"

#include "base/simd.h"
#include "tensor/cpu/exp.h"

namespace sluice::cpu {

SLUICE_SIMD void RnnTanhCell(const float* __restrict gate, float* __restrict hidden, int64_t n) {
  for (int64_t i = 0; i < n; ++i) hidden[i] = Tanh(gate[i]);
}

// NaN stays NaN, and passes its gradient on, as in cpu/activation.cc.
SLUICE_SIMD void RnnReluCell(const float* __restrict gate, float* __restrict hidden, int64_t n) {
  for (int64_t i = 0; i < n; ++i) hidden[i] = gate[i] <= 0 ? 0 : gate[i];
}

SLUICE_SIMD void RnnTanhCellBackward(const float* __restrict hidden, const float* __restrict grad,
                                     float* __restrict gate, int64_t n) {
  for (int64_t i = 0; i < n; ++i) gate[i] = grad[i] * (1 - hidden[i] * hidden[i]);
}

SLUICE_SIMD void RnnReluCellBackward(const float* __restrict hidden, const float* __restrict grad,
                                     float* __restrict gate, int64_t n) {
  for (int64_t i = 0; i < n; ++i) gate[i] = hidden[i] <= 0 ? 0 : grad[i];
}

SLUICE_SIMD void LstmCell(float* __restrict gates, const float* __restrict cell_before,
                          float* __restrict cell, float* __restrict hidden, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const float i = Sigmoid(gates[k]), f = Sigmoid(gates[n + k]), g = Tanh(gates[2 * n + k]),
                o = Sigmoid(gates[3 * n + k]);
    gates[k] = i;
    gates[n + k] = f;
    gates[2 * n + k] = g;
    gates[3 * n + k] = o;
    const float c = f * cell_before[k] + i * g;
    cell[k] = c;
    hidden[k] = o * Tanh(c);
  }
}

SLUICE_SIMD void LstmCellBackward(float* __restrict gates, const float* __restrict cell_before,
                                  const float* __restrict cell, const float* __restrict grad,
                                  float* __restrict grad_cell, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const float i = gates[k], f = gates[n + k], g = gates[2 * n + k], o = gates[3 * n + k];
    const float tanh = Tanh(cell[k]), by_cell = grad_cell[k] + grad[k] * o * (1 - tanh * tanh);
    gates[k] = by_cell * g * i * (1 - i);
    gates[n + k] = by_cell * cell_before[k] * f * (1 - f);
    gates[2 * n + k] = by_cell * i * (1 - g * g);
    gates[3 * n + k] = grad[k] * tanh * o * (1 - o);
    grad_cell[k] = by_cell * f;
  }
}

SLUICE_SIMD void GruCell(float* __restrict gates, const float* __restrict products,
                         const float* __restrict before, float* __restrict candidate,
                         float* __restrict hidden, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const float r = Sigmoid(gates[k] + products[k]), z = Sigmoid(gates[n + k] + products[n + k]),
                c = products[2 * n + k], new_gate = Tanh(gates[2 * n + k] + r * c);
    gates[k] = r;
    gates[n + k] = z;
    gates[2 * n + k] = new_gate;
    candidate[k] = c;
    hidden[k] = (1 - z) * new_gate + z * before[k];
  }
}

SLUICE_SIMD void GruCellBackward(float* __restrict gates, const float* __restrict before,
                                 const float* __restrict candidate, float* __restrict grad,
                                 float* __restrict products, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const float r = gates[k], z = gates[n + k], new_gate = gates[2 * n + k];
    const float by_new = grad[k] * (1 - z) * (1 - new_gate * new_gate),
                by_reset = by_new * candidate[k] * r * (1 - r),
                by_update = grad[k] * (before[k] - new_gate) * z * (1 - z);
    gates[k] = products[k] = by_reset;
    gates[n + k] = products[n + k] = by_update;
    gates[2 * n + k] = by_new;
    products[2 * n + k] = by_new * r;
    grad[k] *= z;
  }
}

}  // namespace sluice::cpu

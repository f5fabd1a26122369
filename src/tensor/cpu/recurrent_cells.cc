#include "tensor/cpu/recurrent_cells.h"

#include "base/simd.h"
#include "tensor/formulas/activation.h"
#include "tensor/formulas/cells.h"

namespace sluice::cpu {

SLUICE_SIMD void RnnTanhCell(const float* __restrict gate, float* __restrict hidden, int64_t n) {
  for (int64_t i = 0; i < n; ++i) hidden[i] = formulas::Tanh(gate[i]);
}

SLUICE_SIMD void RnnReluCell(const float* __restrict gate, float* __restrict hidden, int64_t n) {
  for (int64_t i = 0; i < n; ++i) hidden[i] = formulas::Relu(gate[i]);
}

SLUICE_SIMD void RnnTanhCellBackward(const float* __restrict hidden, const float* __restrict grad,
                                     float* __restrict gate, int64_t n) {
  for (int64_t i = 0; i < n; ++i) gate[i] = formulas::TanhGradient(hidden[i], grad[i]);
}

SLUICE_SIMD void RnnReluCellBackward(const float* __restrict hidden, const float* __restrict grad,
                                     float* __restrict gate, int64_t n) {
  for (int64_t i = 0; i < n; ++i) gate[i] = formulas::ReluGradient(hidden[i], grad[i]);
}

SLUICE_SIMD void LstmCell(float* __restrict gates, const float* __restrict cell_before,
                          float* __restrict cell, float* __restrict hidden, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const formulas::LstmCell c =
        formulas::LstmOf(gates[k], gates[n + k], gates[2 * n + k], gates[3 * n + k], cell_before[k]);
    gates[k] = c.i;
    gates[n + k] = c.f;
    gates[2 * n + k] = c.g;
    gates[3 * n + k] = c.o;
    cell[k] = c.cell;
    hidden[k] = c.hidden;
  }
}

SLUICE_SIMD void LstmCellBackward(float* __restrict gates, const float* __restrict cell_before,
                                  const float* __restrict cell, const float* __restrict grad,
                                  float* __restrict grad_cell, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const formulas::LstmGradients to =
        formulas::LstmGradientsOf(gates[k], gates[n + k], gates[2 * n + k], gates[3 * n + k], cell_before[k],
                                  cell[k], grad[k], grad_cell[k]);
    gates[k] = to.i;
    gates[n + k] = to.f;
    gates[2 * n + k] = to.g;
    gates[3 * n + k] = to.o;
    grad_cell[k] = to.cell_before;
  }
}

SLUICE_SIMD void GruCell(float* __restrict gates, const float* __restrict products,
                         const float* __restrict before, float* __restrict candidate,
                         float* __restrict hidden, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const float by_n = products[2 * n + k];
    const formulas::GruCell c = formulas::GruOf(gates[k], gates[n + k], gates[2 * n + k], products[k],
                                                products[n + k], by_n, before[k]);
    gates[k] = c.r;
    gates[n + k] = c.z;
    gates[2 * n + k] = c.n;
    candidate[k] = by_n;
    hidden[k] = c.hidden;
  }
}

SLUICE_SIMD void GruCellBackward(float* __restrict gates, const float* __restrict before,
                                 const float* __restrict candidate, float* __restrict grad,
                                 float* __restrict products, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const formulas::GruGradients to =
        formulas::GruGradientsOf(gates[k], gates[n + k], gates[2 * n + k], candidate[k], before[k], grad[k]);
    gates[k] = products[k] = to.r;
    gates[n + k] = products[n + k] = to.z;
    gates[2 * n + k] = to.n;
    products[2 * n + k] = to.by_n;
    grad[k] = to.before;
  }
}

}  // namespace sluice::cpu

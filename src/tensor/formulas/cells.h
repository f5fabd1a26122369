// Cells: one element's part of a step of a recurrent layer. sluice/ops.h has the formulas and the order of
// the gates. A cell gets what its gates sum up and returns their values, after the activations, which the
// gradient needs. In gradients `grad` is the gradient by the hidden state after the step.
#pragma once

#include "tensor/formulas/exp.h"

namespace sluice::formulas {

struct LstmCell {
  float i, f, g, o;  // the gates
  float cell, hidden;
};
SLUICE_HOST_DEVICE SLUICE_INLINE LstmCell LstmOf(float i, float f, float g, float o, float cell_before) {
  LstmCell c{Sigmoid(i), Sigmoid(f), Tanh(g), Sigmoid(o), 0, 0};
  c.cell = c.f * cell_before + c.i * c.g;
  c.hidden = c.o * Tanh(c.cell);
  return c;
}

// `i` to `o` are the gates' values.
struct LstmGradients {
  float i, f, g, o;   // by what the gates sum up
  float cell_before;  // by the cell before the step
};
SLUICE_HOST_DEVICE SLUICE_INLINE LstmGradients LstmGradientsOf(float i, float f, float g, float o,
                                                               float cell_before, float cell, float grad,
                                                               float grad_cell) {
  const float tanh = Tanh(cell), by_cell = grad_cell + grad * o * (1 - tanh * tanh);
  return {by_cell * g * i * (1 - i), by_cell * cell_before * f * (1 - f), by_cell * i * (1 - g * g),
          grad * tanh * o * (1 - o), by_cell * f};
}

struct GruCell {
  float r, z, n;  // the gates
  float hidden;
};
// `r`, `z` and `n` come from x; `by_r`, `by_z` and `by_n` are the products of the hidden state.
SLUICE_HOST_DEVICE SLUICE_INLINE GruCell GruOf(float r, float z, float n, float by_r, float by_z, float by_n,
                                               float before) {
  GruCell c{Sigmoid(r + by_r), Sigmoid(z + by_z), 0, 0};
  c.n = Tanh(n + c.r * by_n);
  c.hidden = (1 - c.z) * c.n + c.z * before;
  return c;
}

struct GruGradients {
  float r, z, n;  // by what the gates sum up
  float by_n;     // by the product of the hidden state for the gate n; r and z are those for the others
  float before;   // by the hidden state before the step, without what comes through the products
};
SLUICE_HOST_DEVICE SLUICE_INLINE GruGradients GruGradientsOf(float r, float z, float n, float by_n,
                                                             float before, float grad) {
  const float by_new = grad * (1 - z) * (1 - n * n), by_reset = by_new * by_n * r * (1 - r),
              by_update = grad * (before - n) * z * (1 - z);
  return {by_reset, by_update, by_new, by_new * r, grad * z};
}

}  // namespace sluice::formulas

// Cells: one sequence's part of a recurrent step, as loops that the compiler
// vectorises. The arrays of a call must not overlap.
#pragma once

#include <cstdint>

namespace sluice::cpu {

// `gates` holds all gates, n floats each. A forward function replaces their inputs by their values, after the
// activations; a backward function replaces the values by the gradients by the inputs. `grad` is the gradient
// by the hidden state after the step. Where a backward function changes it, it leaves there the part of the
// gradient by the hidden state before the step that does not come through the product with the weights.

// hidden = tanh(gate) or relu(gate).
void RnnTanhCell(const float* gate, float* hidden, int64_t n);
void RnnReluCell(const float* gate, float* hidden, int64_t n);
void RnnTanhCellBackward(const float* hidden, const float* grad, float* gate, int64_t n);
void RnnReluCellBackward(const float* hidden, const float* grad, float* gate, int64_t n);

void LstmCell(float* gates, const float* cell_before, float* cell, float* hidden, int64_t n);
// `grad_cell` is the gradient by `cell` before the call, and by `cell_before` after it.
void LstmCellBackward(float* gates, const float* cell_before, const float* cell, const float* grad,
                      float* grad_cell, int64_t n);

// `products` [3 n] are the products of the hidden state with its weights.
// `candidate` receives their last third.
void GruCell(float* gates, const float* products, const float* before, float* candidate, float* hidden,
             int64_t n);
// `products` [3 n] receives the gradients by the products.
void GruCellBackward(float* gates, const float* before, const float* candidate, float* grad, float* products,
                     int64_t n);

}  // namespace sluice::cpu

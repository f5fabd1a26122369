// One sequence's part of a recurrent step: loops, vectorised by the compiler. The arrays do not overlap.
#pragma once

#include <cstdint>

namespace sluice::cpu {

// The gates [gates n] come in before their activations and leave as values; backward replaces the values by
// gradients. What comes in as `grad` is by the hidden state that the step made; where backward changes it,
// the rest goes to the hidden state before, beside the products with the gates' gradients.

// hidden = tanh(gate) or relu(gate).
void RnnTanhCell(const float* gate, float* hidden, int64_t n);
void RnnReluCell(const float* gate, float* hidden, int64_t n);
void RnnTanhCellBackward(const float* hidden, const float* grad, float* gate, int64_t n);
void RnnReluCellBackward(const float* hidden, const float* grad, float* gate, int64_t n);

void LstmCell(float* gates, const float* cell_before, float* cell, float* hidden, int64_t n);
// grad_cell: of `cell`, then of `cell_before`.
void LstmCellBackward(float* gates, const float* cell_before, const float* cell, const float* grad,
                      float* grad_cell, int64_t n);

// products [3 n]: the hidden state's with its weights; `candidate` keeps the last third of them.
void GruCell(float* gates, const float* products, const float* before, float* candidate, float* hidden,
             int64_t n);
// products: their gradients.
void GruCellBackward(float* gates, const float* before, const float* candidate, float* grad, float* products,
                     int64_t n);

}  // namespace sluice::cpu

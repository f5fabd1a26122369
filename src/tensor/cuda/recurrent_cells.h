// The kernels of recurrent layers: a step's cells, and copies between the two orders of axes.
#pragma once

#include <driver_types.h>

#include <cstdint>

#include "tensor/cuda/bad_input.h"
#include "tensor/kernels/recurrent.h"

namespace sluice::cuda {

// The sequences of a batch, and which of their steps exist.
struct Sequences {
  int64_t batch, steps;
  bool reverse;
  const int64_t* lengths;  // [batch]; null: all have all steps
};

// Reads lengths of the shape's type to numbers; a bad one counts as 0.
void ReadLengths(cudaStream_t stream, const RecurrentShape& shape, const void* lengths,
                 const InputCheck& check, int64_t* numbers);

// Copy between [batch, steps, columns] and [steps, batch, columns], the latter in the order in which the
// steps are taken. Beyond a sequence's length the result is 0.
void ToTimeFirst(cudaStream_t stream, const Sequences& sequences, const float* from, int64_t columns,
                 float* to);
void ToBatchFirst(cudaStream_t stream, const Sequences& sequences, const float* from, int64_t columns,
                  float* to);

// One step of all sequences. States are [batch, hidden], gates and products [batch, width].
struct RecurrentStep {
  RecurrentKind kind;
  Sequences sequences;
  int64_t position;  // in the order in which steps are taken
  int64_t hidden;    // the extent
  float* gates;      // their sums, then their values; for the backward step the gradients by the sums
  float* products;   // for kGru: the hidden state times its weights; for the backward step their gradients
  float *before, *after;            // the hidden states
  float *cell_before, *cell_after;  // for kLstm
  float* candidate;                 // for kGru: the last third of the products
};

// Replaces the gates' sums by their values and computes the states after the step, which are those before for
// a sequence that does not have it.
void ForwardStep(cudaStream_t stream, const RecurrentStep& step);

// `by_outputs` [batch, steps, hidden] may be null. `grad` is the gradient by the hidden state after the step
// and becomes the part of that by the state before that does not come through the products: zeros but for
// kGru and for sequences that do not have the step. `grad_cell` becomes the gradient by the cell before.
void BackwardStep(cudaStream_t stream, const RecurrentStep& step, const float* by_outputs, float* grad,
                  float* grad_cell);

}  // namespace sluice::cuda

// How the memory that recurrent kernels are given (kernels/recurrent.h) is divided, on every device. Arrays
// in it have time as their first axis, in the order in which the steps are taken.
#pragma once

#include "tensor/kernels/recurrent.h"

namespace sluice {

// The parts of `kept`. States at index 0 are those before the first step, at index i those after i steps.
struct RecurrentKept {
  RecurrentKept(const RecurrentShape& s, float* kept)
      : gates(kept),
        hidden(gates + s.steps * s.batch * s.width()),
        more(hidden + (s.steps + 1) * s.batch * s.hidden) {}
  float *gates, *hidden, *more;  // more: the LSTM's cells (as states), or the GRU's candidates
};

// The parts of the temporary memory of Backward: x; the gradients of the hidden states and of the cells; and,
// for the GRU, those of the products of the hidden states with their weights.
struct RecurrentWork {
  RecurrentWork(const RecurrentShape& s, float* work)
      : x(work),
        hidden(x + s.batch * s.steps * s.in),
        cell(hidden + s.batch * s.hidden),
        products(cell + s.batch * s.hidden) {}
  float *x, *hidden, *cell, *products;
};

}  // namespace sluice

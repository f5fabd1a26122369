// The update of one array in the memory of a card. cuda/ and no_cuda/ implement it.
#pragma once

#include <cstdint>
#include <span>

#include "sluice/dtype.h"
#include "sluice/optimizer.h"
#include "tensor/kernels.h"

namespace sluice::kvstore {

// Pointers are to memory of the card.
struct CardUpdate {
  const Optimizer* optimizer;  // null: the gradient is assigned
  Optimizer::Step step;        // without norms
  double scale;                // factor of the gradient
  DType dtype;                 // weight and gradient have it
  void* weight;
  const void* gradient;
  std::span<void* const> states;  // as FitStates orders them: float, or double for float64
  int64_t n;                      // elements
};

// Enqueues the update on the stream of `kernels`, those of a card: to be called by work on that stream. The
// result is UpdatePart's, bit for bit, but for an optimiser with norms, whose sums have another order and
// which waits for them. Nothing changes if an operation before it on the card has found a bad input.
void UpdateOnCard(Kernels& kernels, const CardUpdate& update);

}  // namespace sluice::kvstore

// UpdateOnCard updates arrays in the memory of a card. cuda/ and no_cuda/ implement it.
#pragma once

#include <cstdint>
#include <span>

#include "base/inline_vector.h"
#include "sluice/dtype.h"
#include "sluice/optimizer.h"
#include "tensor/kernels.h"

namespace sluice::kvstore {

inline constexpr size_t kMostGradients = 4;  // CardUpdate::gradients
inline constexpr size_t kMostCopies = 2;     // CardUpdate::copies

// CardUpdate describes the update of one array. Pointers are to memory of the card.
struct CardUpdate {
  const Optimizer* optimizer;  // null: the gradient is assigned
  Optimizer::Step step;        // without norms
  double scale;                // factor of the gradients' sum
  DType dtype;                 // weight and gradients have it
  void* weight;
  // One to kMostGradients gradients, which are added up as AddUpArgs::arrays.
  InlineVector<const void*, 2> gradients;
  uint32_t exponent;              // AddUpArgs::exponent
  InlineVector<void*, 4> states;  // as FitStates orders them: float, or double for float64
  // Arrays that get the new weight as well, at most kMostCopies. They may be gradients.
  InlineVector<void*, 2> copies;
  int64_t n;  // elements
};

// Enqueues the updates, of arrays that do not overlap, on the stream of `kernels`, those of a card: to be
// called by work on that stream. Arrays whose updates differ in nothing but the arrays share kernels, unless
// the optimiser needs norms. Results are UpdatePart's, bit for bit, but for norms: their sums have another
// order, and are waited for. Nothing changes if an operation before this on the card has found a bad input.
void UpdateOnCard(Kernels& kernels, std::span<const CardUpdate> updates);

}  // namespace sluice::kvstore

// Updates of whole arrays as operations of their contexts' streams.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/inline_vector.h"
#include "kvstore/update/update.h"
#include "sluice/ndarray.h"
#include "tensor/stream.h"

namespace sluice::kvstore {

// The rule by which an array is updated, and the array's states. Updates in progress
// share it; when the rule or the states change, a new one is made.
struct ArrayRule {
  UpdateRule rule;
  wire::KeySpec spec;
  // The states: buffers of the host, or, for a weight on a card, arrays there (ArrayStates).
  std::vector<std::shared_ptr<Buffer>> states;
  std::vector<NDArray> card_states;
};

struct PendingUpdate {
  Label what;  // the update's name in errors
  std::shared_ptr<const ArrayRule> array_rule;
  UpdateInput input;  // without spec and gradients
  // What is added up, on any contexts; those on a GPU are copied to the weight's. Several only for a weight
  // on a card, at most kMostGradients (card_update.h).
  InlineVector<NDArray, 1> gradients;
  NDArray weight;  // its context computes
  Event done;      // set by EnqueueUpdates
  // For a weight on a card: arrays there that get the new weight as well, at most kMostCopies. No update of
  // the call reads one, unless it is one of this one's gradients.
  std::vector<NDArray> copies = {};
  uint32_t exponent = 0;  // the sum of several gradients is divided by 2^exponent
};

// Enqueues all updates and returns at once. The updates of weights on one cpu context are one operation of
// its stream, whose threads share all their elements, however many arrays these belong to; yet each update
// has its own `done` and error, and a failure of one does not affect the others. Those of weights on one card
// are one operation as well, but with one `done` and error: if one of their arrays has failed, none is
// updated. Norms are measured first where the rule needs them. Results equal UpdatePart's bit for bit (for
// cards see card_update.h). No weight may appear twice, nor as a gradient.
void EnqueueUpdates(std::span<PendingUpdate> updates);

}  // namespace sluice::kvstore

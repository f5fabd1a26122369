// Updating whole arrays on their contexts.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kvstore/update/update.h"
#include "sluice/ndarray.h"
#include "tensor/stream.h"

namespace sluice::kvstore {

// What the updates of an array have in common: those under way share it, and who changes the rule or the
// states makes another.
struct ArrayUpdate {
  UpdateRule rule;
  wire::KeySpec spec;
  std::vector<std::shared_ptr<Buffer>> states;  // of FitStates
};

struct PendingUpdate {
  Label what;  // names it in errors
  std::shared_ptr<const ArrayUpdate> update;
  UpdateInput input;  // without spec and gradients
  NDArray gradient;   // on any cpu context
  NDArray weight;     // on a cpu context, which computes
  Event done;         // set by EnqueueUpdates
};

// Enqueues all updates. Those of weights on one context are one operation of its stream, whose threads share
// their elements, however many arrays these lie in; each has an end and an error of its own all the same, and
// none hinders another. Norms are measured first where the rule needs them. As UpdatePart otherwise, to the
// last bit. No weight comes twice, nor as a gradient.
void EnqueueUpdates(std::span<PendingUpdate> updates);

}  // namespace sluice::kvstore

// Updating a whole array on its context.
#pragma once

#include <memory>
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

// Enqueues an update of `weight` by `gradient`, which is on any cpu context, on the stream of the weight's,
// whose threads share the work; norms are measured first where the rule needs them. As UpdatePart otherwise,
// to the last bit. `input` comes without spec and gradients.
Event EnqueueUpdate(Label what, std::shared_ptr<const ArrayUpdate> update, UpdateInput input,
                    const NDArray& gradient, NDArray& weight);

}  // namespace sluice::kvstore

// Clipping by the norm of all gradients together, as Gluon's clip_global_norm and PyTorch's clip_grad_norm_.
//
//   sluice::Trainer trainer(net.CollectParams(), config, store, {.update_on_kvstore = false});
//   autograd::Backward({loss});
//   trainer.AllreduceGrads();                 // the gradients are sums over devices and workers now
//   std::vector<NDArray> gradients = ...;     // parameter->grad(context) of all parameters, one context
//   sluice::ClipGlobalNorm(gradients, 1.0 * batch_size);
//   trainer.Update(batch_size);
//
// After AllreduceGrads every context has the same sums: clip those of each context on their own.
#pragma once

#include <vector>

#include "sluice/ndarray.h"

namespace sluice {

// Returns the 2-norm of all arrays as one vector, summed in float64. Where it is larger than max_norm, every
// array is multiplied by max_norm / norm in place; infinity as max_norm only measures. A norm that is not
// finite is logged, with the first array that has it, and changes nothing: the caller sees it and may leave
// the step out. Waits for the arrays. They may lie on different contexts and be of any floating type; throws
// Error(kInvalidArgument) for others and for a max_norm that is negative or no number.
double ClipGlobalNorm(const std::vector<NDArray>& arrays, double max_norm);

}  // namespace sluice

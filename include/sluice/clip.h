// Clipping by the norm of all gradients together, like Gluon's clip_global_norm and PyTorch's
// clip_grad_norm_.
//
//   sluice::Trainer trainer(net.CollectParams(), config, store, {.update_on_kvstore = false});
//   autograd::Backward({loss});
//   trainer.AllreduceGrads();                 // the gradients are sums over devices and workers now
//   std::vector<NDArray> gradients = ...;     // parameter->grad(context) of all parameters, one context
//   sluice::ClipGlobalNorm(gradients, 1.0 * batch_size);
//   trainer.Update(batch_size);
//
// After AllreduceGrads all contexts have the same sums: call ClipGlobalNorm once for each context. After
// AllreduceGrads(divisor) the bound is 1.0 * batch_size / divisor.
#pragma once

#include "sluice/array_list.h"

namespace sluice {

// Waits for the arrays and returns the 2-norm of all of them as one vector, summed in float64. If it is
// larger than `max_norm`, every array is multiplied by max_norm / norm in place; with infinity as `max_norm`
// the call only measures. A norm that is not finite is logged, with the first array that causes it, and
// changes nothing: the caller may check the result and skip the step. The arrays may lie on different
// contexts and have any floating type. Throws Error(kInvalidArgument) for other types and for a `max_norm`
// that is negative or NaN.
double ClipGlobalNorm(const ArrayList& arrays, double max_norm);

}  // namespace sluice

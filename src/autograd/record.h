// For operations: recording what to do backwards.
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "autograd/node.h"

namespace sluice::autograd {

using BackwardFn = std::function<void(const NDArray& grad, std::vector<NDArray>& out)>;

// Whether any of the inputs is followed and the tape runs.
bool Follows(std::initializer_list<const NDArray*> inputs);
bool Follows(const std::vector<NDArray>& inputs);
// Makes `output` the result of an operation on `inputs`, if Follows.
void Record(NDArray& output, std::initializer_list<const NDArray*> inputs, BackwardFn backward);
void Record(NDArray& output, const std::vector<NDArray>& inputs, BackwardFn backward);

}  // namespace sluice::autograd

// Compares a layer with a function in float64.
#pragma once

#include <gtest/gtest.h>

#include "sluice/autograd.h"
#include "sluice/nn.h"
#include "unit/nn/reference.h"

namespace sluice::nn {

using reference::Random;
using reference::Tensor;

// Compares the layer's output, and the gradients of its input and parameters for a random head gradient, with
// those of `function`, whose arguments are (x, parameters...).
inline void Check(Layer& layer, const Shape& x_shape, const reference::Function& function, uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << layer.kind() << " of " << x_shape << ", seed " << seed);
  Rng rng(seed);
  std::vector<Tensor> inputs = {Random(x_shape, &rng)};
  NDArray x = reference::ToNDArray(inputs[0]);
  autograd::AttachGrad(x);
  const ParameterDict parameters = layer.CollectParams();
  parameters.Initialize({cpu(0)});
  layer(x);  // determines deferred shapes
  for (const auto& parameter : parameters) {
    inputs.push_back(Random(parameter->shape(), &rng));
    parameter->SetData(reference::ToNDArray(inputs.back()));
  }
  NDArray y;
  {
    autograd::RecordScope record;
    y = layer(x);
  }
  const Tensor expected = function(inputs);
  reference::ExpectClose(y, expected);
  const Tensor head = Random(expected.shape, &rng);
  autograd::Backward({y}, {reference::ToNDArray(head)});
  reference::ExpectClose(autograd::Grad(x), reference::Gradient(function, inputs, 0, head));
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters.at(i)->differentiable()) continue;
    SCOPED_TRACE(parameters.at(i)->name());
    reference::ExpectClose(parameters.at(i)->grad(cpu(0)),
                           reference::Gradient(function, inputs, i + 1, head));
  }
}

}  // namespace sluice::nn

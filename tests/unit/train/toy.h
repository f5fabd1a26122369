// Parameters whose gradients a test chooses, and stores of one process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kvstore/local/local_store.h"
#include "sluice/autograd.h"
#include "sluice/parameter.h"

namespace sluice::testing {

inline std::shared_ptr<KVStore> StoreOf(const std::string& type) {
  return kvstore::MakeLocalStore(StoreType::Parse(type), 1, kNoLimit);
}

inline std::vector<Context> Cpus(int count) {
  std::vector<Context> contexts;
  for (int i = 0; i < count; ++i) contexts.push_back(cpu(i));
  return contexts;
}

// Returns a parameter of shape [n] with the given values on every context.
inline std::shared_ptr<nn::Parameter> MakeParameter(const std::string& name, const std::vector<float>& values,
                                                    const std::vector<Context>& contexts,
                                                    nn::ParameterOptions options = {}) {
  options.init = std::make_shared<nn::Zero>();
  const Shape shape{static_cast<int64_t>(values.size())};
  auto parameter = std::make_shared<nn::Parameter>(name, shape, options);
  parameter->Initialize(contexts);
  parameter->SetData(NDArray::From(std::span(values), shape));
  return parameter;
}

// Returns a loss, weight * gradient, whose backward leaves exactly `gradient` on that context.
inline NDArray LossWithGradient(nn::Parameter& parameter, const std::vector<float>& gradient,
                                Context context) {
  const autograd::RecordScope record;
  return parameter.data(context) * NDArray::From(std::span(gradient), parameter.shape(), context);
}
// Runs backward so that the gradient on the parameter's i-th context is `gradients[i]`.
inline void BackwardWith(nn::Parameter& parameter, const std::vector<std::vector<float>>& gradients) {
  std::vector<NDArray> losses;
  for (size_t i = 0; i < gradients.size(); ++i)
    losses.push_back(LossWithGradient(parameter, gradients[i], parameter.list_ctx()[i]));
  autograd::Backward(losses);
}

}  // namespace sluice::testing

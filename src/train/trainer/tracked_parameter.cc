// TrackedParameter: follows one parameter of a Trainer from step to step (tracked_parameter.h).
#include "train/trainer/tracked_parameter.h"

#include <algorithm>
#include <utility>

#include "sluice/autograd.h"
#include "sluice/store_type.h"

namespace sluice::internal {

TrackedParameter::TrackedParameter(std::shared_ptr<nn::Parameter> of)
    : parameter(std::move(of)), keys({parameter->name()}) {}

void TrackedParameter::FollowVariables(const std::function<void()>& on_gradient) {
  if (!has_key) return;
  const std::vector<NDArray>& data = parameter->list_data();
  const auto end = data.begin() + static_cast<ptrdiff_t>(frozen() ? 0 : data.size());
  if (std::equal(variables_.begin(), variables_.end(), data.begin(), end,
                 [](const NDArray& a, const NDArray& b) { return a.node() == b.node(); }))
    return;
  RemoveHooks();
  variables_.assign(data.begin(), end);
  seen_.assign(data.size(), 0);
  for (NDArray& variable : variables_) autograd::SetGradHook(variable, on_gradient);
}

void TrackedParameter::RemoveHooks() {
  for (NDArray& variable : variables_) autograd::SetGradHook(variable, nullptr);
}

void TrackedParameter::SeeVersions() {
  seen_.clear();
  for (const NDArray& data : parameter->list_data()) seen_.push_back(autograd::GradVersion(data));
}

bool TrackedParameter::IsStale() const {
  const std::vector<NDArray>& data = parameter->list_data();
  for (size_t i = 0; i < data.size(); ++i) {
    if (autograd::GradVersion(data[i]) == seen_[i]) return true;
  }
  return false;
}

void TrackedParameter::ZeroStale() {
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (autograd::GradVersion(variables_[i]) != seen_[i]) continue;
    row_sparse() ? autograd::SetRowGrad(variables_[i], {}) : autograd::Grad(variables_[i]).Fill(0);
    seen_[i] = UINT64_MAX;  // no version equals it, so the zero gradient is not stale
  }
}

void TrackedParameter::FollowArrays() {
  weights.resize(1);
  gradients.resize(1);
  weights[0] = parameter->list_data();
  if (row_sparse()) return;
  gradients[0].resize(weights[0].size());
  for (size_t i = 0; i < weights[0].size(); ++i) gradients[0][i] = parameter->grad(parameter->list_ctx()[i]);
}

std::vector<RowSparse> TrackedParameter::RowGradients() const {
  std::vector<RowSparse> gradients;
  for (const Context& context : parameter->list_ctx()) {
    for (RowSparse& rows : parameter->rows().grad(context)) gradients.push_back(std::move(rows));
  }
  return gradients;
}

void TrackedParameter::SpreadWritten() const {
  const NDArray* written = stored.Changed(weights[0]);
  if (written == nullptr) return;
  const autograd::PauseScope pause;
  for (NDArray weight : weights[0]) {
    if (!weight.SharesStorage(*written)) written->CopyTo(&weight);
  }
}

bool PushesTogether(const KVStore& store, const std::vector<TrackedParameter>& parameters) {
  if (StoreType::Parse(store.type()).distributed) return false;
  return std::ranges::all_of(parameters, [](const TrackedParameter& tracked) {
    return tracked.rests() || std::ranges::all_of(tracked.parameter->list_ctx(), [](const Context& context) {
             return context.kind == DeviceKind::kGpu;
           });
  });
}

}  // namespace sluice::internal

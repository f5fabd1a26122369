#include "train/trainer/stored_weights.h"

#include "tensor/access.h"

namespace sluice::internal {

void StoredWeights::Note(const std::vector<NDArray>& weights) {
  noted_.clear();
  for (const NDArray& weight : weights)
    noted_.push_back({weight.storage(), WritesOf(weight), OriginOf(weight)});
}

const NDArray* StoredWeights::Changed(const std::vector<NDArray>& weights) const {
  for (size_t i = 0; i < weights.size(); ++i) {
    if (i >= noted_.size() || noted_[i].storage != weights[i].storage()) return &weights[i];
    if (noted_[i].writes == WritesOf(weights[i])) continue;
    if (noted_[i].origin == nullptr || noted_[i].origin != OriginOf(weights[i])) return &weights[i];
  }
  return nullptr;
}

}  // namespace sluice::internal

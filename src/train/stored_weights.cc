#include "train/stored_weights.h"

#include "tensor/access.h"

namespace sluice {

void Trainer::StoredWeights::Note(size_t index, const std::vector<NDArray>& weights) {
  if (noted_.size() <= index) noted_.resize(index + 1);
  auto& noted = noted_[index];
  noted.clear();
  for (const NDArray& weight : weights)
    noted.push_back({weight.storage(), WritesOf(weight), OriginOf(weight)});
}

const NDArray* Trainer::StoredWeights::Changed(size_t index, const std::vector<NDArray>& weights) const {
  const auto& noted = noted_.at(index);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (i >= noted.size() || noted[i].storage != weights[i].storage()) return &weights[i];
    if (noted[i].writes == WritesOf(weights[i])) continue;
    if (noted[i].origin == nullptr || noted[i].origin != OriginOf(weights[i])) return &weights[i];
  }
  return nullptr;
}

}  // namespace sluice

#include "sluice/dataset.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "data/required.h"
#include "sluice/error.h"

namespace sluice {
namespace {

int64_t LargestAndOne(const std::vector<int32_t>& labels) {
  return labels.empty() ? 0 : int64_t{*std::max_element(labels.begin(), labels.end())} + 1;
}

}  // namespace

int32_t Dataset::Label(int64_t index) const {
  std::vector<float> sample(static_cast<size_t>(sample_shape().size()));
  return Get(index, sample);
}

ArrayDataset::ArrayDataset(Shape sample_shape, std::vector<float> samples, std::vector<int32_t> labels,
                           int64_t num_classes)
    : sample_shape_(std::move(sample_shape)),
      samples_(std::move(samples)),
      labels_(std::move(labels)),
      num_classes_(num_classes == 0 ? LargestAndOne(labels_) : num_classes) {
  if (num_classes < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("ArrayDataset: num_classes is ", num_classes,
                       "; expected at least 1, or 0 for the largest label and one"));
  }
  const auto sample_size = static_cast<uint64_t>(sample_shape_.size());
  const bool fits = sample_size == 0 ? samples_.empty() : samples_.size() / sample_size == labels_.size();
  if (!fits || samples_.size() != sample_size * labels_.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("ArrayDataset: ", samples_.size(), " values and ", labels_.size(),
                       " labels do not make samples of shape ", sample_shape_));
  }
  for (size_t i = 0; i < labels_.size(); ++i) RequireLabel("ArrayDataset", i, labels_[i], num_classes_);
}

std::span<const float> ArrayDataset::sample(int64_t index) const {
  SLUICE_CHECK(index >= 0 && index < size()) << index;
  const auto sample_size = static_cast<size_t>(sample_shape_.size());
  return std::span(samples_).subspan(static_cast<size_t>(index) * sample_size, sample_size);
}

int32_t ArrayDataset::Get(int64_t index, std::span<float> sample) const {
  const auto from = this->sample(index);
  SLUICE_CHECK(sample.size() == from.size()) << sample.size();
  std::copy(from.begin(), from.end(), sample.begin());
  return Label(index);
}

int32_t ArrayDataset::Label(int64_t index) const {
  SLUICE_CHECK(index >= 0 && index < size()) << index;
  return labels_[static_cast<size_t>(index)];
}

}  // namespace sluice

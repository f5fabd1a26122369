// Dataset's default methods, and ArrayDataset: samples that lie in memory as floats.
//
// An ArrayDataset has labels of one kind: classes, or arrays of one shape, which is then in label_shape_. The
// constructors check that samples, labels and shapes fit each other; afterwards nothing changes, so that the
// DataLoader's threads read without a lock.
#include "sluice/dataset.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "data/required.h"
#include "sluice/error.h"

namespace sluice {
namespace {

int64_t LargestAndOne(const std::vector<int32_t>& labels) {
  return labels.empty() ? 0 : int64_t{*std::max_element(labels.begin(), labels.end())} + 1;
}

// Returns entry `index` of `values`, which holds entries of shape `shape` one after another.
std::span<const float> EntryOf(const std::vector<float>& values, const Shape& shape, int64_t index) {
  const auto size = static_cast<size_t>(shape.size());
  return std::span(values).subspan(static_cast<size_t>(index) * size, size);
}

void CopyTo(std::span<const float> from, std::span<float> to) {
  RequireRoom("ArrayDataset", to.size(), from.size());
  std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace

int32_t Dataset::Label(int64_t index) const {
  std::vector<float> sample(static_cast<size_t>(sample_shape().size()));
  return Get(index, sample);
}

void Dataset::GetLabel(int64_t index, std::span<float>) const {
  throw Error(ErrorCode::kFailedPrecondition,
              StrCat("the label of sample ", index, " was asked for as an array, but ",
                     label_shape() ? "the data set does not say how: override GetLabel"
                                   : "the data set's labels are classes"));
}

ArrayDataset::ArrayDataset(Shape sample_shape, std::vector<float> samples, std::vector<int32_t> labels,
                           int64_t num_classes)
    : sample_shape_(sample_shape),
      samples_(std::move(samples)),
      labels_(std::move(labels)),
      size_(static_cast<int64_t>(labels_.size())),
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

ArrayDataset::ArrayDataset(Shape sample_shape, std::vector<float> samples, Shape label_shape,
                           std::vector<float> labels)
    : sample_shape_(sample_shape),
      samples_(std::move(samples)),
      label_shape_(label_shape),
      label_values_(std::move(labels)) {
  const auto sample_size = static_cast<uint64_t>(sample_shape_.size());
  const auto label_size = static_cast<uint64_t>(label_shape_->size());
  const uint64_t count = sample_size == 0 ? 0 : samples_.size() / sample_size;
  if (sample_size == 0 || label_size == 0 || samples_.size() != count * sample_size ||
      label_values_.size() % label_size != 0 || label_values_.size() / label_size != count) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("ArrayDataset: ", samples_.size(), " values and ", label_values_.size(),
                       " of labels do not make samples of shape ", sample_shape_, " with labels of shape ",
                       *label_shape_));
  }
  size_ = static_cast<int64_t>(count);
}

std::span<const float> ArrayDataset::sample(int64_t index) const {
  RequireIndex("ArrayDataset", index, size());
  return EntryOf(samples_, sample_shape_, index);
}

std::span<const float> ArrayDataset::label(int64_t index) const {
  RequireIndex("ArrayDataset", index, size());
  if (!label_shape_)
    throw Error(ErrorCode::kFailedPrecondition,
                "ArrayDataset: labels are classes and no arrays; Label gives one");
  return EntryOf(label_values_, *label_shape_, index);
}

int32_t ArrayDataset::Get(int64_t index, std::span<float> sample) const {
  CopyTo(this->sample(index), sample);
  return Label(index);
}

int32_t ArrayDataset::Label(int64_t index) const {
  RequireIndex("ArrayDataset", index, size());
  return label_shape_ ? 0 : labels_[static_cast<size_t>(index)];
}

void ArrayDataset::GetLabel(int64_t index, std::span<float> label) const {
  if (!label_shape_) return Dataset::GetLabel(index, label);
  CopyTo(this->label(index), label);
}

}  // namespace sluice

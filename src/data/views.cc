// Datasets made of others: Select, Take and Concat, which copy nothing, and InMemory, which copies all
// samples.
//
// A view keeps its datasets alive, changes nothing after its construction, and passes every call on with the
// index that the sample has there. Programs make views; the DataLoader's threads read them.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "data/required.h"
#include "sluice/dataset.h"
#include "sluice/error.h"

namespace sluice {
namespace {

class Selection final : public Dataset {
 public:
  Selection(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices)
      : dataset_(std::move(dataset)), indices_(std::move(indices)) {}
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  const Shape& sample_shape() const override { return dataset_->sample_shape(); }
  int64_t num_classes() const override { return dataset_->num_classes(); }
  int32_t Get(int64_t index, std::span<float> sample) const override {
    return dataset_->Get(At(index), sample);
  }
  int32_t GetInEpoch(int64_t epoch, int64_t index, std::span<float> sample) const override {
    return dataset_->GetInEpoch(epoch, At(index), sample);
  }
  std::optional<int64_t> Bucket(int64_t index) const override { return dataset_->Bucket(At(index)); }
  int32_t Label(int64_t index) const override { return dataset_->Label(At(index)); }
  std::optional<Shape> label_shape() const override { return dataset_->label_shape(); }
  void GetLabel(int64_t index, std::span<float> label) const override {
    dataset_->GetLabel(At(index), label);
  }

 private:
  int64_t At(int64_t index) const {
    RequireIndex("Select", index, size());
    return indices_[static_cast<size_t>(index)];
  }

  const std::shared_ptr<const Dataset> dataset_;
  const std::vector<int64_t> indices_;
};

// The first `count` samples. It needs no list of indices, so that a dataset of any size is cut at no cost.
class First final : public Dataset {
 public:
  First(std::shared_ptr<const Dataset> dataset, int64_t count)
      : dataset_(std::move(dataset)), count_(count) {}
  int64_t size() const override { return count_; }
  const Shape& sample_shape() const override { return dataset_->sample_shape(); }
  int64_t num_classes() const override { return dataset_->num_classes(); }
  int32_t Get(int64_t index, std::span<float> sample) const override {
    return dataset_->Get(At(index), sample);
  }
  int32_t GetInEpoch(int64_t epoch, int64_t index, std::span<float> sample) const override {
    return dataset_->GetInEpoch(epoch, At(index), sample);
  }
  std::optional<int64_t> Bucket(int64_t index) const override { return dataset_->Bucket(At(index)); }
  int32_t Label(int64_t index) const override { return dataset_->Label(At(index)); }
  std::optional<Shape> label_shape() const override { return dataset_->label_shape(); }
  void GetLabel(int64_t index, std::span<float> label) const override {
    dataset_->GetLabel(At(index), label);
  }

 private:
  int64_t At(int64_t index) const {
    RequireIndex("Take", index, count_);
    return index;
  }

  const std::shared_ptr<const Dataset> dataset_;
  const int64_t count_;
};

class Joined final : public Dataset {
 public:
  explicit Joined(std::vector<std::shared_ptr<const Dataset>> datasets) : datasets_(std::move(datasets)) {
    for (const auto& dataset : datasets_) ends_.push_back(size() + dataset->size());
  }
  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  const Shape& sample_shape() const override { return datasets_.front()->sample_shape(); }
  int64_t num_classes() const override { return datasets_.front()->num_classes(); }
  int32_t Get(int64_t index, std::span<float> sample) const override {
    const auto [dataset, at] = Find(index);
    return dataset->Get(at, sample);
  }
  int32_t GetInEpoch(int64_t epoch, int64_t index, std::span<float> sample) const override {
    const auto [dataset, at] = Find(index);
    return dataset->GetInEpoch(epoch, at, sample);
  }
  std::optional<int64_t> Bucket(int64_t index) const override {
    const auto [dataset, at] = Find(index);
    return dataset->Bucket(at);
  }
  int32_t Label(int64_t index) const override {
    const auto [dataset, at] = Find(index);
    return dataset->Label(at);
  }
  std::optional<Shape> label_shape() const override { return datasets_.front()->label_shape(); }
  void GetLabel(int64_t index, std::span<float> label) const override {
    const auto [dataset, at] = Find(index);
    dataset->GetLabel(at, label);
  }

 private:
  // Returns the dataset that has the sample, and the sample's index in it.
  std::pair<const Dataset*, int64_t> Find(int64_t index) const {
    RequireIndex("Concat", index, size());
    const auto part =
        static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    const auto& dataset = datasets_[part];
    return {dataset.get(), index - (ends_[part] - dataset->size())};
  }

  const std::vector<std::shared_ptr<const Dataset>> datasets_;
  std::vector<int64_t> ends_;  // by dataset: the index after its last sample
};

std::string LabelsOf(const Dataset& dataset) {
  const std::optional<Shape> shape = dataset.label_shape();
  return shape ? StrCat("with labels of ", *shape) : StrCat("in ", dataset.num_classes(), " classes");
}

}  // namespace

std::shared_ptr<const Dataset> Select(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices) {
  const int64_t size = Required(dataset, "Select")->size();
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= size) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("Select: index ", i, " is ", indices[i], "; expected 0 to ", size - 1));
    }
  }
  return std::make_shared<Selection>(std::move(dataset), std::move(indices));
}

std::shared_ptr<const Dataset> Take(std::shared_ptr<const Dataset> dataset, int64_t count) {
  const int64_t size = Required(dataset, "Take")->size();
  if (count < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("Take: ", count, " samples are asked for; expected at least 1, and there are ", size));
  }
  if (count >= size) return dataset;
  return std::make_shared<First>(std::move(dataset), count);
}

std::shared_ptr<const Dataset> Concat(std::vector<std::shared_ptr<const Dataset>> datasets) {
  if (datasets.empty()) throw Error(ErrorCode::kInvalidArgument, "Concat: no dataset was given");
  const auto& first = *Required(datasets.front(), "Concat");
  for (size_t i = 1; i < datasets.size(); ++i) {
    const auto& other = *Required(datasets[i], "Concat");
    if (other.sample_shape() == first.sample_shape() && other.num_classes() == first.num_classes() &&
        other.label_shape() == first.label_shape())
      continue;
    throw Error(
        ErrorCode::kInvalidArgument,
        StrCat("Concat: dataset ", i, " has samples of ", other.sample_shape(), " ", LabelsOf(other),
               ", dataset 0 of ", first.sample_shape(), " ", LabelsOf(first), "; they must be the same"));
  }
  return std::make_shared<Joined>(std::move(datasets));
}

std::shared_ptr<const ArrayDataset> InMemory(const Dataset& dataset) {
  const auto sample_size = static_cast<size_t>(dataset.sample_shape().size());
  std::vector<float> samples(static_cast<size_t>(dataset.size()) * sample_size);
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    labels.push_back(
        dataset.Get(i, std::span(samples).subspan(static_cast<size_t>(i) * sample_size, sample_size)));
  }
  if (const std::optional<Shape> shape = dataset.label_shape()) {
    const auto label_size = static_cast<size_t>(shape->size());
    std::vector<float> values(static_cast<size_t>(dataset.size()) * label_size);
    for (int64_t i = 0; i < dataset.size(); ++i)
      dataset.GetLabel(i, std::span(values).subspan(static_cast<size_t>(i) * label_size, label_size));
    return std::make_shared<ArrayDataset>(dataset.sample_shape(), std::move(samples), *shape,
                                          std::move(values));
  }
  return std::make_shared<ArrayDataset>(dataset.sample_shape(), std::move(samples), std::move(labels),
                                        dataset.num_classes());
}

}  // namespace sluice

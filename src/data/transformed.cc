#include <utility>
#include <vector>

#include "base/rng.h"
#include "data/required.h"
#include "sluice/transforms.h"

namespace sluice {
namespace {

class TransformedDataset final : public Dataset {
 public:
  TransformedDataset(std::shared_ptr<const Dataset> dataset, TransformPtr transform, uint64_t seed)
      : dataset_(std::move(dataset)),
        transform_(std::move(transform)),
        shape_(transform_->OutputShape(dataset_->sample_shape())),
        seed_(seed) {}
  int64_t size() const override { return dataset_->size(); }
  const Shape& sample_shape() const override { return shape_; }
  int64_t num_classes() const override { return dataset_->num_classes(); }
  int32_t Get(int64_t index, std::span<float> sample) const override { return GetInEpoch(0, index, sample); }
  int32_t GetInEpoch(int64_t epoch, int64_t index, std::span<float> sample) const override {
    RequireRoom("Transformed", sample.size(), static_cast<size_t>(shape_.size()));
    const Shape& shape = dataset_->sample_shape();
    std::vector<float> raw(static_cast<size_t>(shape.size()));
    const int32_t label = dataset_->GetInEpoch(epoch, index, raw);
    transform_->Apply(shape, raw, sample, DeriveSeed(seed_, epoch, index));
    return label;
  }
  int32_t Label(int64_t index) const override { return dataset_->Label(index); }
  std::optional<Shape> label_shape() const override { return dataset_->label_shape(); }
  void GetLabel(int64_t index, std::span<float> label) const override { dataset_->GetLabel(index, label); }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const TransformPtr transform_;
  const Shape shape_;
  const uint64_t seed_;
};

}  // namespace

std::shared_ptr<const Dataset> Transformed(std::shared_ptr<const Dataset> dataset, TransformPtr transform,
                                           uint64_t seed) {
  Required(dataset, "Transformed");
  if (!transform) throw Error(ErrorCode::kInvalidArgument, "Transformed: no transform was given");
  return std::make_shared<TransformedDataset>(std::move(dataset), std::move(transform), seed);
}

}  // namespace sluice

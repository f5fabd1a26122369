#include "train/scoring.h"

#include <utility>

#include "base/strings.h"
#include "sluice/autograd.h"
#include "sluice/error.h"

namespace sluice::train {
namespace {

constexpr int64_t kProbes = 2;  // with one sample, the mean of a batch would pass for a value per sample

NDArray LabelsFor(const Dataset& data, const Context& context) {
  return NDArray(data.label_shape().value_or(Shape{}).WithAxis(0, kProbes), context);
}

}  // namespace

std::shared_ptr<const nn::Loss> LossFor(const std::shared_ptr<const nn::Loss>& asked, const Dataset& data,
                                        std::string_view who) {
  if (asked != nullptr) return asked;
  if (const std::optional<Shape> shape = data.label_shape()) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat(who, ": the labels are arrays of ", *shape, " and no loss was given; set `loss`, as ",
                       "nn::L2Loss or, for probabilities of classes, nn::SoftmaxCrossEntropyLoss"));
  }
  return std::make_shared<const nn::SoftmaxCrossEntropyLoss>();
}

std::unique_ptr<metric::MeanMetric> NewMetric(const metric::Factory& asked, const Dataset& data) {
  if (asked) {
    std::unique_ptr<metric::MeanMetric> made = asked();
    return dynamic_cast<const metric::Loss*>(made.get()) != nullptr ? nullptr : std::move(made);
  }
  return data.label_shape() ? nullptr : metric::New<metric::Accuracy>();
}

Judge JudgeOf(const metric::MeanMetric* metric) {
  if (metric == nullptr) return {.metric = "loss", .higher_is_better = false, .is_loss = true};
  return {.metric = metric->name(), .higher_is_better = metric->higher_is_better(), .is_loss = false};
}

void RequireFits(nn::Layer& net, const Dataset& data, const std::vector<Context>& contexts,
                 const nn::Loss& criterion, const metric::Factory& asked) {
  const Shape shape = data.sample_shape().WithAxis(0, kProbes);
  const autograd::PauseScope pause;
  for (const Context& context : contexts) {
    const NDArray predictions = net(NDArray(shape, context)), labels = LabelsFor(data, predictions.context());
    const NDArray losses = criterion(predictions, labels);
    RequirePerSample("Fit", losses, kProbes);
    losses.WaitToRead();
    if (const auto metric = NewMetric(asked, data))
      metric->Update(labels, metric->takes_losses() ? losses : predictions);
  }
}

void RequirePerSample(std::string_view call, const NDArray& losses, int64_t samples) {
  if (losses.size() == samples) return;
  throw Error(ErrorCode::kInvalidArgument,
              StrCat(call, ": for ", samples, " samples the loss gave an array of shape ", losses.shape(),
                     "; it must give one value for each (Reduction::kPerSample)"));
}

}  // namespace sluice::train

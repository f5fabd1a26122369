#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "sluice/autograd.h"
#include "sluice/error.h"
#include "sluice/fit.h"
#include "sluice/split.h"
#include "train/scoring.h"
#include "train/shards.h"

namespace sluice {
namespace {

constexpr int64_t kEvalBatch = 250;

// Copies the values to the pinned context, which has a stream of its own, so that the copy does not wait for
// computations.
NDArray HostArrayFrom(std::span<const float> values, const Shape& shape) {
  return NDArray::From(values, shape, cpu_pinned(0));
}

NDArray LabelsOf(const Batch& batch) {
  if (batch.label_shape.ndim() > 0) return HostArrayFrom(batch.label_values, batch.label_shape);
  const std::vector<float> classes(batch.labels.begin(), batch.labels.end());
  return HostArrayFrom(classes, {batch.size()});
}

}  // namespace

train::Shards train::Load(const Batch& batch, const std::vector<Context>& contexts,
                          const std::vector<double>& work_load) {
  Shards shards;
  if (batch.size() == 0) return shards;
  const NDArray images = HostArrayFrom(batch.samples, batch.shape);
  const NDArray labels = LabelsOf(batch);
  if (batch.size() < static_cast<int64_t>(contexts.size())) {  // too small to cut, at the end of an epoch
    shards.images = {images.AsInContext(contexts.front())};
    shards.labels = {labels.AsInContext(contexts.front())};
    return shards;
  }
  const auto cut = [&](const NDArray& whole) {
    return work_load.empty() ? SplitAndLoad(whole, contexts, /*even_split=*/false)
                             : SplitAndLoad(whole, contexts, std::span<const double>(work_load));
  };
  shards.images = cut(images);
  shards.labels = cut(labels);
  return shards;
}

EvalReport Evaluate(nn::Layer& net, const Dataset& dataset, const std::vector<Context>& contexts,
                    const EvaluateOptions& options) {
  if (contexts.empty())
    throw Error(ErrorCode::kInvalidArgument, "Evaluate: there are no contexts to compute on; cpu(0) is one");
  const autograd::PauseScope pause;
  const std::shared_ptr<const nn::Loss> criterion = train::LossFor(options.loss, dataset, "Evaluate");
  const std::unique_ptr<metric::MeanMetric> metric = train::NewMetric(options.metric, dataset);
  metric::Loss loss;
  const int64_t top_k = options.top_k;
  metric::TopKAccuracy best(std::max<int64_t>(top_k, 1));
  std::optional<DataLoader> loader;
  if (dataset.size() > 0) {
    const std::shared_ptr<const Dataset> all(std::shared_ptr<const Dataset>(), &dataset);  // not owned
    loader.emplace(all, DataLoaderOptions{.batch_size = kEvalBatch,
                                          .shuffle = false,
                                          .num_epochs = 1,
                                          .num_threads = options.loader_threads});
  }
  for (std::optional<Batch> batch; loader && (batch = loader->Next());) {
    const train::Shards shards = train::Load(*batch, contexts, {});
    loader->Reuse(*std::exchange(batch, std::nullopt));
    std::vector<NDArray> predictions, losses;
    for (size_t i = 0; i < shards.images.size(); ++i) {
      predictions.push_back(net(shards.images[i]));
      losses.push_back((*criterion)(predictions.back(), shards.labels[i]));
    }
    if (metric != nullptr) metric->Update(shards.labels, predictions);
    loss.Update(shards.labels, losses);
    if (top_k > 1) best.Update(shards.labels, predictions);
  }
  return {metric != nullptr ? metric->value() : loss.value(), loss.value(), top_k > 1 ? best.value() : 0};
}

}  // namespace sluice

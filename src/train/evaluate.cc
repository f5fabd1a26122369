#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "sluice/autograd.h"
#include "sluice/error.h"
#include "sluice/fit.h"
#include "train/scoring.h"
#include "train/shards.h"

namespace sluice {
EvalReport Evaluate(nn::Layer& net, const Dataset& dataset, const std::vector<Context>& contexts,
                    const EvaluateOptions& options) {
  const std::vector<Context> places = train::ContextsOf(net, contexts, "Evaluate");
  const autograd::PauseScope pause;
  net.ForgetStates(/*training=*/false);
  const std::shared_ptr<const nn::Loss> criterion = train::LossFor(options.loss, dataset, "Evaluate");
  const std::unique_ptr<metric::MeanMetric> metric = train::NewMetric(options.metric, dataset);
  metric::Loss loss;
  const int64_t top_k = options.top_k;
  metric::TopKAccuracy best(std::max<int64_t>(top_k, 1));
  std::optional<DataLoader> loader;
  if (dataset.size() > 0) {
    const std::shared_ptr<const Dataset> all(std::shared_ptr<const Dataset>(), &dataset);  // not owned
    loader.emplace(all, DataLoaderOptions{.batch_size = options.batch_size,
                                          .shuffle = false,
                                          .num_epochs = 1,
                                          .num_threads = options.loader_threads});
  }
  for (std::optional<Batch> batch; loader && (batch = loader->Next());) {
    train::Shards shards = train::Load(*batch, places, {});
    loader->Reuse(*std::exchange(batch, std::nullopt));
    std::vector<NDArray> predictions, losses;
    uint64_t first = 0;  // the place of the shard in the batch, which tells carried states from each other
    for (size_t i = 0; i < shards.images.size(); ++i) {
      const autograd::SampleScope samples(first);
      first += static_cast<uint64_t>(shards.images[i].shape()[0]);
      predictions.push_back(net(shards.images[i]));
      shards.labels[i] = shards.labels[i].AsInContext(predictions.back().context());
      losses.push_back((*criterion)(predictions.back(), shards.labels[i]));
    }
    if (metric != nullptr) metric->Update(shards.labels, metric->takes_losses() ? losses : predictions);
    loss.Update(shards.labels, losses);
    if (top_k > 1) best.Update(shards.labels, predictions);
  }
  return {metric != nullptr ? metric->value() : loss.value(), loss.value(), top_k > 1 ? best.value() : 0};
}

}  // namespace sluice

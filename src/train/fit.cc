#include "sluice/fit.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <iostream>

#include "base/clock.h"
#include "base/strings.h"
#include "sluice/autograd.h"
#include "sluice/loss.h"
#include "sluice/metric.h"
#include "sluice/split.h"
#include "sluice/trainer.h"
#include "train/progress.h"

namespace sluice {
namespace {

constexpr int64_t kWarmUpSteps = 5;  // left out of images/s when more follow
constexpr int64_t kEvalBatch = 250;
constexpr int kColumns = 80;

// A batch on its devices.
struct Shards {
  std::vector<NDArray> images, labels;
};

// Through memory of its own, so that the copy waits for no computation.
NDArray OnHost(std::span<const float> values, const Shape& shape) {
  return NDArray::From(values, shape, cpu_pinned(0));
}

// Equal slices without a work load.
Shards Load(const Batch& batch, const std::vector<Context>& contexts, const std::vector<double>& work_load) {
  Shards shards;
  if (batch.size() == 0) return shards;
  const NDArray images = OnHost(batch.samples, batch.shape);
  const std::vector<float> classes(batch.labels.begin(), batch.labels.end());
  const NDArray labels = OnHost(classes, {batch.size()});
  if (batch.size() < static_cast<int64_t>(contexts.size())) {  // the end of an epoch: too small to cut
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

// What a step leaves to be counted, read one step late so that reading waits for nothing.
struct StepResult {
  std::vector<NDArray> labels, predictions, losses;
  int64_t size = 0;
};

class FitRun {
 public:
  FitRun(nn::Layer& net, std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test,
         OptimizerConfig optimizer, std::shared_ptr<KVStore> store, const FitOptions& options)
      : net_(net),
        test_(std::move(test)),
        store_(std::move(store)),
        options_(options),
        loader_(std::move(train), LoaderOptions()),
        progress_(std::cout, options.live_progress && isatty(STDOUT_FILENO), kColumns, options.disp_batches) {
    ResolveShapes();
    optimizer.normalize_by_samples = true;
    trainer_ = std::make_unique<Trainer>(net_.CollectParams(), std::move(optimizer), store_);
    if (options_.first_epoch > 0) loader_.Seek({options_.first_epoch, 0});
    if (options_.optimizer_states.empty()) return;
    trainer_->LoadStates(options_.optimizer_states);
    store_->Barrier();  // nobody pushes before the states stand
  }

  FitReport Run() {
    const bool by_steps = options_.num_steps >= 0;
    const int64_t per_epoch = loader_.steps_per_epoch();
    const int64_t last_epoch = by_steps
                                   ? options_.first_epoch + (options_.num_steps + per_epoch - 1) / per_epoch
                                   : options_.num_epochs;
    started_ = SteadyClock().Now();
    for (int64_t epoch = options_.first_epoch; epoch < last_epoch; ++epoch) {
      ++report_.epochs;
      RunEpoch(epoch, last_epoch,
               by_steps ? std::min(per_epoch, options_.num_steps - report_.steps) : per_epoch);
    }
    store_->WaitAll();
    if ((by_steps || report_.epochs == 0) && leader() && test_ != nullptr) EvaluateNow();
    return report_;
  }

 private:
  bool leader() const { return store_->rank() == 0; }

  DataLoaderOptions LoaderOptions() const {
    DataLoaderOptions loader;
    loader.batch_size = options_.batch_size;
    loader.shuffle = options_.shuffle;
    loader.seed = options_.seed;
    loader.share = {store_->rank(), store_->num_workers()};
    return loader;
  }

  // One sample forward on every context: parameters learn their shapes before the store makes its keys.
  void ResolveShapes() {
    std::vector<int64_t> dims = {1};
    const Shape& sample = loader_.dataset().sample_shape();
    dims.insert(dims.end(), sample.dims().begin(), sample.dims().end());
    const autograd::PauseScope pause;
    for (const Context& context : options_.contexts) net_(NDArray(Shape(dims), context)).WaitToRead();
  }

  void RunEpoch(int64_t epoch, int64_t last_epoch, int64_t steps) {
    loss_.Reset();
    accuracy_.Reset();
    for (int64_t step = 0; step < steps; ++step) {
      Step(*loader_.Next());
      if (pending_.size() > 1) Count();
      Show(epoch, last_epoch, step + 1, steps);
    }
    while (!pending_.empty()) Count();
    if (options_.num_steps >= 0) return;
    report_.train_loss.push_back(loss_.value());
    if (!leader()) return;
    if (test_ != nullptr) EvaluateNow();
    const std::string head = StrCat("epoch ", epoch + 1);
    progress_.Say(StrCat(head, " loss ", loss_.value(), " accuracy ", accuracy_.value(), " ",
                         static_cast<int64_t>(report_.images_per_sec), " images/s"));
    if (test_ != nullptr) {
      progress_.Say(
          StrCat(head, " test accuracy ", report_.test_accuracy,
                 options_.top_k > 1 ? StrCat(" top-", options_.top_k, " ", report_.test_top_k) : ""));
    }
    if (!options_.after_epoch) return;
    const Time before = SteadyClock().Now();
    options_.after_epoch({.epoch = epoch + 1, .steps = report_.steps, .trainer = *trainer_});
    not_training_ += SteadyClock().Now() - before;
  }

  void Step(const Batch& batch) {
    // Work loads fit a full batch; of what is left at the end of an epoch a small one may get nothing.
    const bool full = batch.size() == options_.batch_size;
    Shards shards = Load(batch, options_.contexts, full ? options_.work_load : std::vector<double>());
    trainer_->PushSamplesDuringBackward(static_cast<uint64_t>(batch.size()));
    StepResult result{shards.labels, {}, {}, batch.size()};
    if (batch.size() > 0) {
      {
        const autograd::RecordScope record;
        for (size_t i = 0; i < shards.images.size(); ++i) {
          result.predictions.push_back(net_(shards.images[i]));
          result.losses.push_back(criterion_(result.predictions.back(), shards.labels[i]));
        }
      }
      autograd::Backward(result.losses);
    }
    trainer_->StepSamples(static_cast<uint64_t>(batch.size()));
    for (NDArray& array : result.predictions) array.set_node(nullptr);
    for (NDArray& array : result.losses) array.set_node(nullptr);
    pending_.push_back(std::move(result));
    ++report_.steps;
    Measure(batch.global_size);
  }

  void Measure(int64_t images) {
    images_ += images;
    const Time now = SteadyClock().Now();
    const double seconds = ToSeconds(now - started_ - not_training_);
    if (seconds > 0) report_.images_per_sec = static_cast<double>(images_) / seconds;
    if (report_.steps != kWarmUpSteps) return;
    started_ = now;
    not_training_ = {};
    images_ = 0;
  }

  void Count() {
    const StepResult result = std::move(pending_.front());
    pending_.pop_front();
    double before = loss_.sum();
    loss_.Update(result.labels, result.losses);
    accuracy_.Update(result.labels, result.predictions);
    if (options_.num_steps >= 0)
      report_.train_loss.push_back(
          result.size == 0 ? 0 : (loss_.sum() - before) / static_cast<double>(result.size));
  }

  void Show(int64_t epoch, int64_t last_epoch, int64_t step, int64_t steps) {
    if (!leader() || loss_.count() == 0) return;
    const double per_step =
        report_.images_per_sec > 0
            ? static_cast<double>(options_.batch_size * store_->num_workers()) / report_.images_per_sec
            : 0;
    const auto left = static_cast<double>((last_epoch - epoch) * steps - step) * per_step;
    progress_.Update(SteadyClock().Now(), {.epoch = static_cast<int>(epoch),
                                           .num_epochs = static_cast<int>(last_epoch),
                                           .batch = step,
                                           .num_batches = steps,
                                           .loss = loss_.value(),
                                           .accuracy = accuracy_.value(),
                                           .images_per_sec = report_.images_per_sec,
                                           .left = FromSeconds(left)});
  }

  void EvaluateNow() {
    const Time before = SteadyClock().Now();
    const EvalReport report = Evaluate(net_, *test_, options_.contexts, options_.top_k);
    report_.test_accuracy = report.accuracy;
    report_.test_top_k = report.top_k;
    not_training_ += SteadyClock().Now() - before;
  }

  nn::Layer& net_;
  const std::shared_ptr<const Dataset> test_;
  const std::shared_ptr<KVStore> store_;
  const FitOptions options_;
  DataLoader loader_;
  train::Progress progress_;
  std::unique_ptr<Trainer> trainer_;
  const nn::SoftmaxCrossEntropyLoss criterion_{};
  metric::Loss loss_;
  metric::Accuracy accuracy_;
  std::deque<StepResult> pending_;
  FitReport report_;
  Time started_{};
  Duration not_training_{};
  int64_t images_ = 0;
};

}  // namespace

EvalReport Evaluate(nn::Layer& net, const Dataset& dataset, const std::vector<Context>& contexts,
                    int64_t top_k) {
  const autograd::PauseScope pause;
  metric::Accuracy accuracy;
  metric::TopKAccuracy best(std::max<int64_t>(top_k, 1));
  const auto sample = static_cast<size_t>(dataset.sample_shape().size());
  for (int64_t first = 0; first < dataset.size(); first += kEvalBatch) {
    Batch batch;
    const int64_t count = std::min(kEvalBatch, dataset.size() - first);
    std::vector<int64_t> dims = {count};
    dims.insert(dims.end(), dataset.sample_shape().dims().begin(), dataset.sample_shape().dims().end());
    batch.shape = Shape(dims);
    batch.samples.resize(static_cast<size_t>(count) * sample);
    for (int64_t i = 0; i < count; ++i) {
      batch.labels.push_back(
          dataset.Get(first + i, std::span(batch.samples).subspan(static_cast<size_t>(i) * sample, sample)));
    }
    const Shards shards = Load(batch, contexts, {});
    std::vector<NDArray> predictions;
    for (const NDArray& images : shards.images) predictions.push_back(net(images));
    accuracy.Update(shards.labels, predictions);
    if (top_k > 1) best.Update(shards.labels, predictions);
  }
  return {accuracy.value(), top_k > 1 ? best.value() : 0};
}

FitReport Fit(nn::Layer& net, std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test,
              OptimizerConfig optimizer, std::shared_ptr<KVStore> store, const FitOptions& options) {
  return FitRun(net, std::move(train), std::move(test), std::move(optimizer), std::move(store), options)
      .Run();
}

}  // namespace sluice

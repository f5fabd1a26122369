// The training loop over a DataLoader: every device of this process, any store, evaluation, progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sluice/callback.h"
#include "sluice/context.h"
#include "sluice/data.h"
#include "sluice/kvstore.h"
#include "sluice/loss.h"
#include "sluice/metric.h"
#include "sluice/nn.h"
#include "sluice/optimizer.h"
#include "sluice/trainer.h"

namespace sluice {

// Contexts are each worker's own, and so are callbacks, of which rank 0's are called. What says which steps
// there are and after which ones all meet is the same on all workers, else Fit throws Error(kInvalidArgument)
// where it differs from rank 0: the size of the data, batch_size, last_batch, class_weights, shuffle, seed,
// the labels' shape, the metric, num_epochs, num_steps, eval_steps, clip_global_norm, start, start_step, and
// whether a callback may stop the run. So is the optimiser; the loss must be, too, and is not compared.
// Workers of async stores may take different numbers of steps where no callback may stop the run.
struct FitOptions {
  std::vector<Context> contexts = {cpu(0)};
  std::vector<double> work_load;  // of a full batch, by context; empty: equal
  int64_t batch_size = 64;        // of this worker
  int64_t num_epochs = 10;        // of the whole run
  int64_t num_steps = -1;         // >= 0: of the whole run, in place of num_epochs; epochs are as ever
  bool shuffle = true;
  uint64_t seed = 0;
  // Of predictions and labels (class numbers as floats, [batch], or the data's arrays, [batch, ...]), one
  // value for each sample; null: nn::SoftmaxCrossEntropyLoss of classes, and for arrays an error.
  std::shared_ptr<const nn::Loss> loss;
  // What is printed, reported and decides what is better, as metric::New<metric::MeanAbsoluteError>. Null:
  // the accuracy where labels are classes; for arrays, or where it makes null or a metric::Loss, there is
  // none, and the loss decides. It is tried on two samples with labels of zeros first.
  metric::Factory metric;
  double clip_global_norm = 0;  // above 0: TrainerOptions' bound; the workers then update, not the store
  LastBatch last_batch = LastBatch::kKeep;  // of training; evaluation takes every sample
  std::vector<double> class_weights;        // by class, as DataLoaderOptions has them
  int loader_threads = 1;                   // that make batches ahead: decode, transform; of evaluation, too
  int64_t disp_batches = 100;               // a plain line every so many batches
  int64_t eval_steps = 0;                   // evaluates also after every so many steps; 0: after epochs only
  int64_t top_k = 0;                        // > 1: evaluated too; labels are classes
  bool live_progress = false;               // a bar on a terminal
  bool quiet = false;               // nothing is printed; that the loss has become no number goes to the log
  std::string samples = "samples";  // what they are called where their number per second is shown: "images"
  std::vector<CallbackPtr> callbacks;
  // How long the others wait while rank 0 evaluates and calls what there is after an epoch and at the end;
  // those of async stores do not, but where a callback may stop the run. A callback after a step has the time
  // that a pull may take (KVStore::SetTimeout).
  std::chrono::milliseconds leader_timeout = std::chrono::hours(24);

  // Of a run that goes on (LoadCheckpoint).
  Position start;                             // the first batch; the same on all workers
  int64_t start_step = 0;                     // steps done before it
  std::string optimizer_states;               // a file; rank 0 reads it; empty: none
  std::string statistics;                     // a file; rank 0 reads it; empty: all contexts begin alike
  std::map<std::string, std::string> memory;  // of callbacks, by name; rank 0's counts
};

struct FitReport {
  int64_t steps = 0;           // of this run, without those before its start
  int64_t epochs = 0;          // begun or gone on with
  bool stopped_early = false;  // by a callback
  double images_per_sec =
      0;  // samples, of all workers together, without the warm-up of 5 steps if more follow
  std::vector<double> train_loss;  // mean of this worker's batch, one per step (num_steps) or per epoch
  double test_score = 0;  // rank 0 only, after the last step: the accuracy, FitOptions::metric's, or the loss
  double test_loss = 0;
  double test_top_k = 0;
};

struct EvaluateOptions {
  std::shared_ptr<const nn::Loss> loss;  // these as FitOptions'
  metric::Factory metric;
  int64_t top_k = 0;
  int loader_threads = 1;
};
// Metric and loss over a whole data set, its batches cut over all contexts. `net` must be initialised on
// them.
EvalReport Evaluate(nn::Layer& net, const Dataset& dataset, const std::vector<Context>& contexts,
                    const EvaluateOptions& options = {});

// Trains `net` (parameters initialised, shapes may be deferred). The optimiser is set with
// normalize_by_samples, or every step divided by its batch of all workers: right for uneven batches. Pushes
// overlap backward. Gradients that add up (kAdd) begin every step at 0. `test` may be null; so may `store`,
// as a Trainer's. Throws Error(kInvalidArgument) for a loss that gives anything but one value for each
// sample, network, loss, metric and labels that do not fit each other (before the first step), and for
// clip_global_norm with an async store, whose workers share no step.
FitReport Fit(nn::Layer& net, std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test,
              OptimizerConfig optimizer, std::shared_ptr<KVStore> store = nullptr,
              const FitOptions& options = {});

}  // namespace sluice

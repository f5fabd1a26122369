// Fit is the training loop over a DataLoader: it trains on every device of this process with any store,
// evaluates, and shows its progress.
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

// Each worker chooses its own contexts and callbacks; only the callbacks of rank 0 are called. The options
// that determine the steps, and the steps after which all workers wait for each other, must be the same on
// all workers: the size of the data, the samples' shape and buckets, batch_size, last_batch, class_weights,
// shuffle, seed, the labels' shape, the metric, num_epochs, num_steps, eval_steps, clip_global_norm, start,
// start_step, and whether a callback may stop the run. So must the optimiser. On a worker that differs from
// rank 0, Fit throws Error(kInvalidArgument). The loss must be the same as well, but is not compared. Workers
// of an async store may differ in num_epochs, num_steps, eval_steps, start and start_step unless a callback
// may stop the run.
struct FitOptions {
  // Where the network is computed, on slices of each batch. Not used for a nn::PlacedSequential, which lies
  // on the contexts of its placement: it then names one context at most.
  std::vector<Context> contexts = {cpu(0)};
  std::vector<double> work_load;  // by context: relative shares of a full batch; empty: equal shares
  // Above 0: a step of a nn::PlacedSequential is a Pipeline of so many micro-batches (sluice/pipeline.h).
  int64_t micro_batches = 0;
  int64_t batch_size = 64;  // samples in a step of this worker
  int64_t num_epochs = 10;  // the whole run has so many
  int64_t num_steps = -1;   // >= 0: steps of the whole run, in place of num_epochs
  bool shuffle = true;
  uint64_t seed = 0;
  // Computes one value for each sample from predictions and labels. Labels are class numbers as floats,
  // [batch], or the arrays of the data set, [batch, ...]. Null means nn::SoftmaxCrossEntropyLoss for classes,
  // and is an error for arrays.
  std::shared_ptr<const nn::Loss> loss;
  // Makes the metric that is printed and reported and by which scores are compared, for example
  // metric::New<metric::MeanAbsoluteError>. Null means the accuracy where labels are classes. Where labels
  // are arrays and the factory is null, or where it makes null or a metric::Loss, the loss is the score. The
  // network, the loss and the metric are tried on two samples of zeros, with labels of zeros, first.
  metric::Factory metric;
  double clip_global_norm = 0;              // as in TrainerOptions; above 0: workers update, not the store
  LastBatch last_batch = LastBatch::kKeep;  // in training; evaluation takes every sample
  std::vector<double> class_weights;        // by class, as in DataLoaderOptions
  int loader_threads = 1;                   // threads that make batches ahead, in training and evaluation
  int64_t disp_batches = 100;               // a line is printed after every so many batches
  int64_t eval_batch_size = 250;            // EvaluateOptions::batch_size
  int64_t eval_steps = 0;                   // evaluates also after every so many steps; 0: after epochs only
  int64_t top_k = 0;                        // > 1: evaluates the top-k accuracy, too; labels must be classes
  bool live_progress = false;               // shows a progress bar if standard output is a terminal
  bool quiet = false;                       // prints nothing; that the loss is not finite is logged instead
  std::string samples = "samples";  // the name of samples in "samples per second", for example "images"
  std::vector<CallbackPtr> callbacks;
  // How long the other workers wait while rank 0 evaluates and calls the callbacks, after an epoch, after an
  // evaluation by eval_steps and at the end of the run. Workers of an async store wait only where a callback
  // may stop the run. While rank 0 calls OnStep after any other step, the others wait as long as a pull may
  // take (KVStore::SetTimeout).
  std::chrono::milliseconds leader_timeout = std::chrono::hours(24);

  // The fields below resume a run; LoadCheckpoint returns their values.
  Position start;                // the first batch; the same on all workers
  int64_t start_step = 0;        // number of steps done before `start`
  std::string optimizer_states;  // a file that rank 0 reads; empty: none
  std::string statistics;        // a file that rank 0 reads; empty: all contexts begin alike
  // The prefix of the checkpoint, within an epoch, of which each worker reads the states that layers carry,
  // from the files that are on its machine. States that are in none begin with zeros, and the log says so.
  // Empty: all begin with zeros.
  std::string carried_states;
  std::map<std::string, std::string> memory;  // what callbacks remember, by name; rank 0's counts
};

struct FitReport {
  int64_t steps = 0;           // steps of this call, without those before FitOptions::start
  int64_t epochs = 0;          // epochs that this call began or resumed
  bool stopped_early = false;  // whether a callback stopped the run
  // Samples per second of all workers together. The first 5 steps are a warm-up and do not count if more
  // follow.
  double samples_per_sec = 0;
  std::vector<double> train_loss;  // means over this worker's samples, by step (num_steps) or by epoch
  // Rank 0 only: the results of the evaluation after the last step. The score is the accuracy, that of
  // FitOptions::metric, or the loss.
  double test_score = 0;
  double test_loss = 0;
  double test_top_k = 0;
};

struct EvaluateOptions {
  std::shared_ptr<const nn::Loss> loss;  // all fields as in FitOptions
  metric::Factory metric;
  int64_t top_k = 0;
  int loader_threads = 1;
  int64_t batch_size = 250;  // samples of a batch on all contexts
};
// Computes the metric and the loss over a whole data set, whose batches are divided over all contexts. `net`
// must be initialised on these; a nn::PlacedSequential lies on those of its placement (FitOptions::contexts).
EvalReport Evaluate(nn::Layer& net, const Dataset& dataset, const std::vector<Context>& contexts,
                    const EvaluateOptions& options = {});

// Trains `net`, whose parameters must be initialised; shapes may be deferred. `test` may be null, and so may
// `store`, as for a Trainer. Uneven batches are weighted correctly: Fit sets normalize_by_samples in the
// optimiser or, with clip_global_norm, divides every step by the batch of all workers. Pushes overlap the
// backward pass. Gradients that accumulate (kAdd) begin every step at 0. Fit throws Error(kInvalidArgument)
// for clip_global_norm with an async store, whose workers share no steps, and, before the first step, for a
// loss that does not give exactly one value for each sample and for network, loss, metric and labels that do
// not fit each other.
FitReport Fit(nn::Layer& net, std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test,
              OptimizerConfig optimizer, std::shared_ptr<KVStore> store = nullptr,
              const FitOptions& options = {});

}  // namespace sluice

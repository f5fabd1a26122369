// The training loop over a DataLoader: every device of this process, any store, evaluation, progress.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/context.h"
#include "sluice/data.h"
#include "sluice/kvstore.h"
#include "sluice/nn.h"
#include "sluice/optimizer.h"
#include "sluice/trainer.h"

namespace sluice {

// What a callback at the end of an epoch may save: sluice/checkpoint.h.
struct EpochEnd {
  int64_t epoch = 0;  // epochs done, those before first_epoch included
  int64_t steps = 0;  // of this run
  Trainer& trainer;
};

struct FitOptions {
  std::vector<Context> contexts = {cpu(0)};
  std::vector<double> work_load;  // of a full batch, by context; empty: equal
  int64_t batch_size = 64;        // of this worker
  int64_t first_epoch = 0;        // counted from 0; > 0 goes on with a run
  int64_t num_epochs = 10;        // of the whole run: first_epoch to num_epochs - 1 are trained
  int64_t num_steps = -1;         // >= 0: exactly these many steps from first_epoch on in place of num_epochs
  std::string optimizer_states;   // a file to go on from; rank 0 reads it; empty: none
  bool shuffle = true;
  uint64_t seed = 0;
  int64_t disp_batches = 100;                        // a plain line every so many batches
  int64_t top_k = 0;                                 // > 1: evaluated too
  bool live_progress = false;                        // a bar on a terminal
  std::function<void(const EpochEnd&)> after_epoch;  // rank 0 only
};

struct FitReport {
  int64_t steps = 0;
  int64_t epochs = 0;              // begun
  double images_per_sec = 0;       // all workers together, without the warm-up of 5 steps if more follow
  std::vector<double> train_loss;  // mean of this worker's batch, one per step (num_steps) or per epoch
  double test_accuracy = 0;        // rank 0 only, after the last step
  double test_top_k = 0;
};

struct EvalReport {
  double accuracy = 0;
  double top_k = 0;
};

// Accuracy over a whole data set, its batches cut over all contexts. `net` must be initialised on them.
EvalReport Evaluate(nn::Layer& net, const Dataset& dataset, const std::vector<Context>& contexts,
                    int64_t top_k = 0);

// Trains `net` (parameters initialised, shapes may be deferred) with softmax cross-entropy. The optimiser is
// set with normalize_by_samples: right for uneven batches. Pushes overlap backward. `test` may be null.
FitReport Fit(nn::Layer& net, std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test,
              OptimizerConfig optimizer, std::shared_ptr<KVStore> store, const FitOptions& options);

}  // namespace sluice

// Callbacks of a training run, for example to save checkpoints, to stop the run or to draw its curves.
//
//   options.callbacks = {SaveEvery("run/lenet", {.steps = 500, .keep = 2}), KeepBest("run/lenet-best"),
//                        StopEarly({.patience = 3}), WriteReport("run/lenet.html", "LeNet")};
//
// All workers of a job list the same callbacks, and only those of rank 0 are called (but for SavesAfter). Fit
// passes rank 0's decision to stop on to all workers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/data.h"
#include "sluice/nn.h"
#include "sluice/parameters_file.h"
#include "sluice/trainer.h"

namespace sluice {

// The metric whose score says how good a run is.
struct Judge {
  std::string metric = "accuracy";  // the name of the metric
  bool higher_is_better = true;
  bool is_loss = false;  // true: there is no metric, and the loss is the score
};

struct EvalReport {
  double score = 0;  // the metric's (by default the accuracy); the loss where there is no metric
  double loss = 0;   // the mean loss
  double top_k = 0;
};

class Callback;
using CallbackPtr = std::shared_ptr<Callback>;

// The state of a run between two steps.
struct FitStatus {
  Position next;     // the next batch; {epoch, 0} at the end of the epoch before
  int64_t step = 0;  // number of steps done since the start of the run, also those before it was resumed
  uint64_t seed = 0;
  bool shuffle = true;
  const Batching& batching;
  // The mean loss and the score of this worker over the epoch so far. The newest step may be missing while it
  // is under way.
  double loss = 0;
  double score = 0;
  const Judge& judge;
  double samples_per_sec = 0;  // samples per second of all workers together
  const std::string& samples;  // the name of samples: FitOptions::samples
  double learning_rate = 0;
  // Returns what Fit itself remembers, the sums of the epoch so far; a checkpoint saves it under the name
  // kMemory. The function waits for the newest step.
  static constexpr const char* kMemory = "Fit";
  const std::function<std::string()>& memory;
  std::optional<EvalReport> test;  // the evaluation after this step, if there was one
  nn::Layer& net;
  Trainer& trainer;
  const std::vector<CallbackPtr>& callbacks;  // all callbacks of the run
};

class Callback {
 public:
  virtual ~Callback() = default;
  virtual void OnBegin(const FitStatus&) {}  // before the first step, after Recall
  virtual void OnStep(const FitStatus&) {}   // after each step but the last of an epoch
  virtual void OnEpoch(const FitStatus&) {}  // after the evaluation, if there is one
  virtual void OnEnd(const FitStatus&) {}    // after the run, which num_steps may end within an epoch

  // Returns whether the callback may end a run early. If one may, all workers wait for each other before the
  // first epoch and after each, and the run ends for all of them if rank 0's WantsStop returns true.
  virtual bool MayStop() const { return false; }
  virtual bool WantsStop() const { return false; }

  // Returns whether the callback needs a test set. Fit then refuses a run without one.
  virtual bool NeedsTestSet() const { return false; }

  // Returns whether the callback saves what others remember. It is then called after these, wherever it is
  // listed.
  virtual bool Saves() const { return false; }
  // Returns the prefix of the checkpoint that it may save after this step of the run, which does not end an
  // epoch; empty if it saves none then. `is_last`: the run ends with this step. Where layers carry states,
  // each worker asks its own callbacks, and writes the states of its layers (CheckpointCarriedFile); those of
  // sync stores meet, so their callbacks must answer alike. SaveEvery does; it writes rank 0's file itself.
  virtual std::string SavesAfter(int64_t /*step*/, bool /*is_last*/) const { return {}; }
  // Memory returns what the callback has to remember when a run is resumed. A checkpoint stores it under
  // name(), or not at all if the name is empty. Callbacks of the same name are distinguished by their order.
  virtual std::string name() const { return {}; }
  virtual std::string Memory() const { return {}; }
  // Gets what Memory returned, before the first step of a resumed run. Throws Error(kDataLoss) for a text
  // that Memory cannot have returned.
  virtual void Recall(const std::string&) {}
};

// Return callbacks that call a function after each step but the last of an epoch, or after each epoch. They
// throw Error(kInvalidArgument) for an empty function.
CallbackPtr AfterStep(std::function<void(const FitStatus&)> call);
CallbackPtr AfterEpoch(std::function<void(const FitStatus&)> call);

struct SaveOptions {
  int64_t epochs = 0;  // saves after every so many epochs; 0: not by epochs
  int64_t steps = 0;   // saves after every so many steps of the run; 0: not by steps
  int64_t keep = 2;    // how many checkpoints remain of those not made by `epochs`: the newest
  // Returns whether the run should end early; for example TerminationFlag() of sluice/runtime.h. It is called
  // after each step and epoch. Once it returns true, a checkpoint is saved, and Fit throws Error(kCancelled),
  // which names it. Null means that the run does not end early.
  std::function<bool()> end_asked = nullptr;
  FileMetadata metadata = {};  // for Checkpoint::metadata
};
// Saves checkpoints (sluice/checkpoint.h) under `prefix`, with what the callbacks of the run remember. A run
// that ends within an epoch is saved there as well. Only checkpoints that this run has made, also before it
// was resumed, are removed (SaveOptions::keep). After the first step Fit throws Error(kAlreadyExists) if
// `prefix` has a checkpoint at or beyond the position of the run: it comes from another run, and the newest
// checkpoint would not be one of this run.
CallbackPtr SaveEvery(std::string prefix, const SaveOptions& options);

// Saves the parameters with the best test score of all evaluations so far as `file`, in safetensors format.
// The metadata have the number of epochs begun as "epoch", the number of steps as "step", and the score as
// "test_accuracy"; if the metric is not the accuracy, its name as "test_metric" and the score as
// "test_score". Parameters with a loss or a score that is not finite are never the best. `metadata` is added,
// as to a checkpoint.
CallbackPtr KeepBest(std::string file, FileMetadata metadata = {});

struct StopOptions {
  int64_t patience = 3;  // the run ends after so many epochs without a better test score
  double min_delta = 0;  // a score is better if it is better by more than this
};
CallbackPtr StopEarly(const StopOptions& options);

struct PlateauOptions {
  double factor = 0.5;
  int64_t patience = 1;  // the rate is lowered after so many epochs without a better test score, and again
  double min_delta = 0;  // a score is better if it is better by more than this
};
// Multiplies the learning rate by `factor` when the test score has stalled. A resumed run goes on with the
// rate that the run had. Throws Error(kInvalidArgument) for a factor outside (0, 1), a patience below 1 and a
// negative min_delta.
CallbackPtr LowerRateOnPlateau(const PlateauOptions& options = {});

// Writes learning curves to one HTML file that any browser opens: losses and accuracies by epoch, the
// learning rate and samples per second. The file is rewritten after every epoch, and at the end of a run
// within an epoch. A resumed run continues the curves.
CallbackPtr WriteReport(std::string file, std::string title);

}  // namespace sluice

// Who listens to a training run: saves, stops, draws.
//
//   options.callbacks = {SaveEvery("run/lenet", {.steps = 500, .keep = 2}), KeepBest("run/lenet-best"),
//                        StopEarly({.patience = 3}), WriteReport("run/lenet.html")};
//
// All workers of a job list the same callbacks; those of rank 0 are called. Whether to stop is told to all.
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

// What a run is judged by.
struct Judge {
  std::string metric = "accuracy";  // its name
  bool higher_is_better = true;
  bool is_loss = false;  // there is no metric, and the loss is the score
};

struct EvalReport {
  double score = 0;  // of the metric: the accuracy, unless there is another; the loss where there is none
  double loss = 0;   // the mean
  double top_k = 0;
};

class Callback;
using CallbackPtr = std::shared_ptr<Callback>;

// A moment between two steps.
struct FitStatus {
  Position next;     // the batch that comes next: {epoch, 0} at the end of the epoch before
  int64_t step = 0;  // steps done since the start of the run, those before a resume included
  uint64_t seed = 0;
  bool shuffle = true;
  const Batching& batching;
  // Of this worker, over the epoch so far. While steps are under way the newest one may be missing.
  double loss = 0;
  double score = 0;
  const Judge& judge;
  double images_per_sec = 0;   // samples, of all workers together
  const std::string& samples;  // what they are called: FitOptions::samples
  double learning_rate = 0;
  // For a checkpoint, under kMemory: what Fit itself remembers, the sums of the epoch so far. Waits for the
  // newest step.
  static constexpr const char* kMemory = "Fit";
  const std::function<std::string()>& memory;
  std::optional<EvalReport> test;  // where it was made just now
  nn::Layer& net;
  Trainer& trainer;
  const std::vector<CallbackPtr>& callbacks;  // of the run
};

class Callback {
 public:
  virtual ~Callback() = default;
  virtual void OnStep(const FitStatus&) {}   // after each step but the last of an epoch
  virtual void OnEpoch(const FitStatus&) {}  // after the evaluation, if there is one
  virtual void OnEnd(const FitStatus&) {}    // a run of num_steps may end within an epoch: status.next

  // Whether it ever ends a run. Then all workers meet before the first epoch and after each, and rank 0's
  // WantsStop counts for all.
  virtual bool MayStop() const { return false; }
  virtual bool WantsStop() const { return false; }

  // Whether it is nothing without a test set: then Fit refuses a run that has none.
  virtual bool NeedsTestSet() const { return false; }

  // Whether it saves what the others remember: then it is called after them, wherever it is listed.
  virtual bool Saves() const { return false; }
  // What it knows of the run so far, for a checkpoint: under this name, unless it is empty. Callbacks of one
  // name are told apart by their order.
  virtual std::string name() const { return {}; }
  virtual std::string Memory() const { return {}; }
  // What Memory said, before the first step of a run that goes on. Throws Error(kDataLoss) when it cannot be.
  virtual void Recall(const std::string&) {}
};

// Both throw Error(kInvalidArgument) for an empty function.
CallbackPtr AfterStep(std::function<void(const FitStatus&)> call);
CallbackPtr AfterEpoch(std::function<void(const FitStatus&)> call);

struct SaveOptions {
  int64_t epochs = 0;  // after every so many; 0: not for epochs
  int64_t steps = 0;   // after every so many of the run, and where it ends; 0: only at the end of epochs
  int64_t keep = 2;    // how many of those made for `steps` stay: the newest
  // Whether the run is to end before its time, such as TerminationFlag() of sluice/runtime.h. Asked after
  // each step and epoch: once it is true, a checkpoint is saved there, and Fit throws Error(kCancelled),
  // which names it. Null: never.
  std::function<bool()> end_asked = nullptr;
  FileMetadata metadata = {};  // Checkpoint::metadata
};
// Checkpoints (sluice/checkpoint.h) under `prefix`, with what the run's callbacks remember. Of those made for
// steps only the run's own are removed. After the first step Error(kAlreadyExists) where a checkpoint lies
// ahead of the run, from another one: the newest would not be this run's.
CallbackPtr SaveEvery(std::string prefix, const SaveOptions& options);

// The parameters with the best test score of all evaluations so far, as FILE: safetensors with "epoch"
// (begun: the one that they are of), "step" and "test_accuracy" in its metadata, or "test_metric" and
// "test_score" where another metric judges. A loss that is no number is never the best. `metadata` goes into
// the file, too, as into a checkpoint.
CallbackPtr KeepBest(std::string file, FileMetadata metadata = {});

struct StopOptions {
  int64_t patience = 3;  // epochs without a better test score before the run ends
  double min_delta = 0;  // better: by more than this
};
CallbackPtr StopEarly(const StopOptions& options);

// Learning curves as one HTML file that any browser opens: losses and accuracies by epoch, the learning rate
// and samples per second; rewritten after every epoch, and at an end within one. A run that goes on continues
// the curves.
CallbackPtr WriteReport(std::string file, std::string title);

}  // namespace sluice

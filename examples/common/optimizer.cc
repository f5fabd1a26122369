// Builds the OptimizerConfig that --optimizer, --lr, --mom, --wd and the --lr-* flags describe.
//
// A flag that is empty gets a default that converges for the network, the optimiser and the number of workers
// (SetRate). The learning-rate schedule counts updates, while --lr-step-epochs counts epochs of the data:
// LastStepOf converts them. common/training.cc calls MakeOptimizer before it creates the store, to check the
// flags, and again after it has loaded a checkpoint.
#include "common/optimizer.h"

#include <algorithm>
#include <iostream>

#include "common/flags.h"
#include "common/text.h"

namespace sluice::examples {
namespace {

// Returns the number of steps in `epochs` epochs of the data, which need not be a whole number. With
// --last-batch rollover the end of an epoch need not be the end of a batch, so the samples of all epochs are
// divided by the batch; otherwise each epoch has the same number of steps.
int64_t StepsOf(double epochs, const SamplerConfig& sampler, int workers) {
  const int64_t batch = GlobalBatch(sampler, workers);
  return static_cast<int64_t>(sampler.last_batch == LastBatch::kRollover
                                  ? epochs * static_cast<double>(sampler.num_samples) /
                                        static_cast<double>(batch)
                                  : epochs * static_cast<double>(StepsPerEpoch(sampler, workers)));
}

// Returns the schedule's step at which `epoch` of the data ends. The optimiser counts updates from those that
// the loaded states have seen, so the result is that count plus the steps from the loaded position to the end
// of `epoch`, with the steps per epoch of this run: batch size and workers may have changed since the
// checkpoint. It is at least 0: without loaded states the count is 0, and an epoch that ended before the
// loaded position would give a negative step; with 0 its lower rate applies from the first step on.
int64_t LastStepOf(double epoch, const LoadedCheckpoint& start, const SamplerConfig& sampler, int workers) {
  const int64_t updates_per_step = IsAsync() ? workers : 1;
  const int64_t done = (start.updates + updates_per_step - 1) / updates_per_step;
  const int64_t before = StepsOf(static_cast<double>(start.next.epoch), sampler, workers) + start.next.step;
  return std::max<int64_t>(0, done + StepsOf(epoch, sampler, workers) - before);
}

bool IsDescent(OptimizerKind kind) {
  return kind == OptimizerKind::kSgd || kind == OptimizerKind::kNag;
}

// Sets learning rate and momentum: --lr and --mom if they are given, else defaults.
//
// In an async store of several workers the default momentum is 0, and all rates fall as the number of workers
// grows, as ResolvedForAsync has it; without momentum, sgd and nag take up to twice their rate. The
// measurements are in docs/design/optimizers.md.
void SetRate(const std::map<std::string, double>& rates, int workers, OptimizerConfig* config) {
  const OptimizerConfig kind{.kind = config->kind};
  const bool delayed = IsAsync() && workers > 1;
  const double synchronous = Resolved(kind).learning_rate;
  auto own = rates.find(StrCat(FLAGS_network, " ", FLAGS_optimizer));
  if (own == rates.end()) own = rates.find(FLAGS_optimizer);
  config->learning_rate = own != rates.end() ? own->second : synchronous;
  if (delayed)
    config->learning_rate *=
        (IsDescent(kind.kind) ? 2 : 1) * ResolvedForAsync(kind, workers).learning_rate / synchronous;
  config->learning_rate = LearningRate().value_or(config->learning_rate);
  if (ReadsMomentum(kind.kind)) config->momentum = Momentum().value_or(delayed ? 0 : 0.9);
  *config = Resolved(std::move(*config));
}

}  // namespace

OptimizerConfig MakeOptimizer(const std::map<std::string, double>& rates, const LoadedCheckpoint& start,
                              const SamplerConfig& sampler, int workers) {
  RequireOneOf("optimizer", FLAGS_optimizer, TrainingOptimizers());
  OptimizerConfig config{.kind = *OptimizerKindOf(FLAGS_optimizer), .wd = FLAGS_wd};
  SetRate(rates, workers, &config);
  config.multi_precision = WeightType() != DType::kFloat32;
  for (const double epoch : LrStepEpochs()) {
    config.schedule.kind = LrScheduleKind::kMultiFactor;
    config.schedule.factor = FLAGS_lr_factor;
    config.schedule.steps.push_back(LastStepOf(epoch, start, sampler, workers));
  }
  if (const std::string why = InvalidReason(config); !why.empty()) {
    throw Error(ErrorCode::kInvalidArgument, why + " (--lr, --mom, --wd, --lr-factor, --lr-step-epochs)");
  }
  return config;
}

void WarnOfOptimizer(const std::set<std::string>& unfit) {
  if (unfit.contains(FLAGS_optimizer)) {
    std::cerr << WrapMessage(
                     StrCat("warning: ", FLAGS_optimizer,
                            " has been seen to learn nothing here, at any learning rate: most weights "
                            "have a gradient in few batches; adam learns."))
              << std::endl;
  }
}

std::string Describe(const OptimizerConfig& optimizer) {
  return StrCat(Name(optimizer.kind), ", learning rate ", optimizer.learning_rate,
                ReadsMomentum(optimizer.kind) ? StrCat(", momentum ", optimizer.momentum) : "");
}

}  // namespace sluice::examples

#include "common/optimizer.h"

#include <algorithm>
#include <iostream>

#include "base/strings.h"
#include "common/flags.h"
#include "sluice/error.h"

namespace sluice::examples {
namespace {

// How many steps the given epochs of the data have. Rolled over, they need not begin with a batch.
int64_t StepsOf(double epochs, const SamplerConfig& sampler, int workers) {
  const int64_t batch = GlobalBatch(sampler, workers);
  return static_cast<int64_t>(sampler.last_batch == LastBatch::kRollover
                                  ? epochs * static_cast<double>(sampler.num_samples) /
                                        static_cast<double>(batch)
                                  : epochs * static_cast<double>(StepsPerEpoch(sampler, workers)));
}

// The step of the schedule that ends the given epoch of the data. It counts on from the updates that the
// loaded states have seen, with today's steps per epoch: batch size and workers may have been others before.
// What has passed ends at 0 at the earliest, without states: then it holds from the first step on.
int64_t LastStepOf(double epoch, const LoadedCheckpoint& start, const SamplerConfig& sampler, int workers) {
  const int64_t updates_per_step = IsAsync() ? workers : 1;
  const int64_t done = (start.updates + updates_per_step - 1) / updates_per_step;
  const int64_t before = StepsOf(static_cast<double>(start.next.epoch), sampler, workers) + start.next.step;
  return std::max<int64_t>(0, done + StepsOf(epoch, sampler, workers) - before);
}

}  // namespace

OptimizerConfig MakeOptimizer(const LoadedCheckpoint& start, const SamplerConfig& sampler, int workers) {
  const auto kind = OptimizerKindOf(FLAGS_optimizer);
  if (!kind || *kind == OptimizerKind::kAccumulate) {  // which knows no learning rate
    Refuse("optimizer", StrCat("is '", FLAGS_optimizer,
                               "'; it takes sgd, nag, adam, adamw, adagrad, rmsprop, ftrl, lamb or signum"));
  }
  OptimizerConfig config{.kind = *kind, .learning_rate = FLAGS_lr};
  const bool takes_momentum =
      *kind == OptimizerKind::kSgd || *kind == OptimizerKind::kNag || *kind == OptimizerKind::kSignum;
  config.momentum = takes_momentum ? FLAGS_mom : 0;  // as MXNet's program, whose rmsprop has none
  config.wd = FLAGS_wd;
  config.multi_precision = WeightType() != DType::kFloat32;
  for (const double epoch : LrStepEpochs()) {
    config.schedule.kind = LrScheduleKind::kMultiFactor;
    config.schedule.factor = FLAGS_lr_factor;
    config.schedule.steps.push_back(LastStepOf(epoch, start, sampler, workers));
  }
  if (const std::string why = WhyInvalid(config); !why.empty()) {
    throw Error(ErrorCode::kInvalidArgument, why + " (--lr, --mom, --wd, --lr-factor, --lr-step-epochs)");
  }
  return config;
}

void WarnOfOptimizer() {
  if (FLAGS_optimizer == "ftrl") {
    std::cerr << WrapMessage(
                     "warning: ftrl begins from weights of 0, whatever they were; it is for linear "
                     "models, and networks with hidden layers learn nothing from there.")
              << std::endl;
  }
  if (IsAsync() && FLAGS_lr >= 0.05 && FLAGS_mom >= 0.9) {
    std::cerr
        << WrapMessage(StrCat(
               "warning: ", FLAGS_kv_store, " with --lr ", FLAGS_lr, " and --mom ", FLAGS_mom,
               " is known to diverge: every worker's push moves the weights on its own. --lr 0.01 works."))
        << std::endl;
  }
}

}  // namespace sluice::examples

#include "common/optimizer.h"

#include <algorithm>
#include <iostream>

#include "common/flags.h"
#include "common/text.h"

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

bool IsDescent(OptimizerKind kind) {
  return kind == OptimizerKind::kSgd || kind == OptimizerKind::kNag;
}

// Where --lr and --mom say nothing. In async stores each worker's push moves the weights by a whole step,
// from a gradient of weights that are as many pushes old as there are other workers. That delay, which one
// worker alone has not, acts like momentum (Mitliagkas et al. 2016): with one of its own on top sgd diverges
// at any rate that is worth having. Without, sgd takes twice its rate, and all rates go down as the delay
// goes up. docs/design/optimizers.md has what was measured.
void SetRate(const std::map<std::string, double>& rates, int workers, OptimizerConfig* config) {
  const bool delayed = IsAsync() && workers > 1;
  auto own = rates.find(StrCat(FLAGS_network, " ", FLAGS_optimizer));
  if (own == rates.end()) own = rates.find(FLAGS_optimizer);
  if (own != rates.end()) config->learning_rate = own->second;
  if (ReadsMomentum(config->kind)) config->momentum = delayed ? 0 : 0.9;
  *config = Resolved(std::move(*config));
  if (delayed)
    config->learning_rate *=
        IsDescent(config->kind) ? std::min(2.0, 6.0 / workers) : std::min(1.0, 4.0 / workers);
  config->learning_rate = LearningRate().value_or(config->learning_rate);
  if (ReadsMomentum(config->kind)) config->momentum = Momentum().value_or(config->momentum);
}

}  // namespace

OptimizerConfig MakeOptimizer(const std::map<std::string, double>& rates, const LoadedCheckpoint& start,
                              const SamplerConfig& sampler, int workers) {
  const auto kind = OptimizerKindOf(FLAGS_optimizer);
  if (!kind || *kind == OptimizerKind::kAccumulate) {  // which knows no learning rate
    Refuse("optimizer", StrCat("is '", FLAGS_optimizer,
                               "'; it takes sgd, nag, adam, adamw, adagrad, rmsprop, ftrl, lamb or signum"));
  }
  OptimizerConfig config{.kind = *kind, .wd = FLAGS_wd};
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

void WarnOfOptimizer(const OptimizerConfig& optimizer, const std::set<std::string>& unfit, int workers) {
  const double rate = optimizer.learning_rate, momentum = optimizer.momentum;
  if (optimizer.kind == OptimizerKind::kFtrl && FLAGS_network != "linear") {
    std::cerr
        << WrapMessage(
               "warning: ftrl begins from weights of 0, whatever they were; it is for linear models "
               "(train_mnist --network linear), and networks with hidden layers learn nothing from there.")
        << std::endl;
  }
  if (unfit.contains(FLAGS_optimizer)) {
    std::cerr << WrapMessage(
                     StrCat("warning: ", FLAGS_optimizer,
                            " has been seen to learn nothing here, at any learning rate: most weights "
                            "have a gradient in few batches; adam learns."))
              << std::endl;
  }
  if (IsAsync() && workers > 1 && IsDescent(optimizer.kind) &&
      rate / (1 - momentum) >= std::min(0.25, 0.5 / workers)) {
    std::cerr << WrapMessage(StrCat("warning: ", FLAGS_kv_store, " with ", workers,
                                    " workers, learning rate ", rate, " and momentum ", momentum,
                                    " may diverge: every worker's push moves the weights on its own. Without "
                                    "--lr and --mom what converges is chosen."))
              << std::endl;
  }
}

std::string Describe(const OptimizerConfig& optimizer) {
  return StrCat(Name(optimizer.kind), ", learning rate ", optimizer.learning_rate,
                ReadsMomentum(optimizer.kind) ? StrCat(", momentum ", optimizer.momentum) : "");
}

}  // namespace sluice::examples

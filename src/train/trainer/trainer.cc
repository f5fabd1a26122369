// The Trainer's steps (sluice/trainer.h). ParameterKeys makes its keys, each TrackedParameter follows a
// parameter.
//
// With update_on_kvstore a step pushes gradients and pulls weights that the store has updated, those of
// tables later (ParameterTables). Otherwise it pulls the sums of gradients (GradientSums), and LocalUpdate
// updates on each context. All methods run on the training thread, OnGradient within Backward. Variables,
// arrays and multipliers of parameters may change between steps; each step follows them first.
#include "sluice/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "autograd/pass_scope.h"
#include "base/log.h"
#include "base/strings.h"
#include "sluice/autograd.h"
#include "sluice/error.h"
#include "sluice/store_type.h"
#include "train/trainer/gradient_sums.h"
#include "train/trainer/local_update.h"
#include "train/trainer/own_store.h"
#include "train/trainer/parameter_keys.h"
#include "train/trainer/parameter_tables.h"
#include "train/trainer/require_positive.h"
#include "train/trainer/tracked_parameter.h"
#include "train/trainer/update_count.h"

namespace sluice {

using internal::RequirePositive;
using internal::TrackedParameter;

namespace {

void RequireValid(const TrainerOptions& options, const std::string& store) {
  const auto refuse = [](const std::string& why) { throw Error(ErrorCode::kInvalidArgument, why); };
  if (!(options.clip_global_norm >= 0))
    refuse(StrCat("clip_global_norm is ", options.clip_global_norm, "; it must be at least 0"));
  if (options.clip_global_norm > 0 && options.update_on_kvstore)
    refuse("clip_global_norm needs update_on_kvstore = false: no server holds the gradients of all keys");
  if (options.update_on_kvstore || !StoreType::Parse(store).async) return;
  if (options.clip_global_norm > 0)
    refuse(StrCat("clip_global_norm needs steps that all workers share; store type ", store, " has none"));
  refuse(StrCat("store type ", store, " updates at every push: it needs update_on_kvstore = true"));
}

void WarnOfDivergence(const KVStore& store, const OptimizerConfig& config) {
  if (!StoreType::Parse(store.type()).async || store.rank() != 0) return;
  const std::string why = DivergenceReason(config, store.num_workers());
  if (!why.empty()) LOG(WARNING) << WrapLogged(StrCat(Name(config.kind), ": ", why));
}

// What a step was told about its batch.
std::string DescribeBatch(const PushOptions& options) {
  return options.samples > 0 ? StrCat(options.samples, " samples") : StrCat("batch size ", options.divisor);
}

}  // namespace

Trainer::Trainer(nn::ParameterDict parameters, OptimizerConfig optimizer, std::shared_ptr<KVStore> store,
                 TrainerOptions options)
    : store_(train::StoreOrDefault(std::move(store))),
      options_(options),
      config_(train::ResolvedFor(*store_, std::move(optimizer))) {
  RequireValid(options_, store_->type());
  internal::ParameterKeys::Parameters constants;
  for (const auto& parameter : parameters) {
    if (!parameter->differentiable()) {
      constants.push_back(parameter);
      continue;
    }
    config_.multipliers[parameter->name()] = {parameter->lr_mult(), parameter->wd_mult()};
    tracked_.emplace_back(parameter);
  }
  // This check comes before the keys are made, so that a constructor that throws leaves no keys in the store.
  if (const std::string why = InvalidReason(config_); !why.empty())
    throw Error(ErrorCode::kInvalidArgument, why);
  WarnOfDivergence(*store_, config_);
  if (!options_.update_on_kvstore) local_update_ = std::make_unique<internal::LocalUpdate>(config_);
  tables_ = std::make_unique<internal::ParameterTables>(*store_, tracked_, local_update_.get());
  tables_->RequireValid(config_);
  rates_ = Optimizer::Create(config_);
  sums_ = std::make_unique<internal::GradientSums>(*store_, tracked_, options_.clip_global_norm);
  updates_ = std::make_unique<internal::UpdateCount>(*store_, tracked_, local_update_.get());
  keys_ =
      std::make_unique<internal::ParameterKeys>(*store_, tracked_, std::move(constants), local_update_.get());
  keys_->AwaitShapes([this](TrackedParameter* tracked) { OnKeyMade(tracked); });
  std::string why = keys_->MakeKnown();
  if (const std::string of_tables = tables_->Make(); why.empty()) why = of_tables;
  options_.update_on_kvstore ? store_->SetOptimizer(config_) : sums_->RequireSums();
  keys_->StartKnown();
  tables_->Start();
  // This is a barrier: no worker pushes before the store has its optimiser.
  updates_->Agree(why.empty() ? std::nullopt : std::optional(Error(ErrorCode::kFailedPrecondition, why)));
  tables_->Follow();
  for (size_t i = 0; i < tracked_.size(); ++i) {
    FollowVariables(i);
    if (tracked_[i].has_key) tracked_[i].SeeVersions();
  }
}

Trainer::~Trainer() {
  for (TrackedParameter& tracked : tracked_) tracked.RemoveHooks();
}

// The store may have updated the values of a key that is made late for another Trainer before. In async
// stores the number of updates cannot be taken: it may already include other workers' pushes.
void Trainer::OnKeyMade(TrackedParameter* tracked) {
  if (keys_->complete() && updates_->value() == 0 && !StoreType::Parse(store_->type()).async)
    updates_->Take();
  if (tracked == nullptr) return;
  FollowVariables(static_cast<size_t>(tracked - tracked_.data()));
  tracked->SeeVersions();
}

void Trainer::BeginStep() {
  keys_->RequireNoFailure();
  tables_->Follow();  // another Trainer may have had the parameters since
  for (size_t i = 0; i < tracked_.size(); ++i) FollowVariables(i);
}

void Trainer::FollowVariables(size_t index) {
  tracked_[index].FollowVariables([this, index] { OnGradient(index); });
}

void Trainer::PushPull(size_t index, const PushOptions& options) {
  TrackedParameter& tracked = tracked_[index];
  tracked.FollowArrays();
  PushOptions here = options;
  here.priority = -static_cast<int>(index);  // the first layers are needed first
  if (tracked.row_sparse()) return tables_->Push(tracked, here);
  if (!options_.update_on_kvstore) return store_->PushPull(tracked.keys, tracked.gradients, {}, here);
  if (const NDArray* written = tracked.stored.Changed(tracked.weights[0]))
    store_->Set(tracked.keys.front(), *written);
  store_->PushPull(tracked.keys, tracked.gradients, tracked.weights, here);
  tracked.stored.Note(tracked.weights[0]);
}

void Trainer::PushPullTogether(std::span<const size_t> indices, const PushOptions& options) {
  if (indices.empty()) return;
  std::vector<Key> keys;
  std::vector<KVStore::Values> gradients, weights;
  for (const size_t i : indices) {
    TrackedParameter& tracked = tracked_[i];
    tracked.FollowArrays();
    keys.push_back(tracked.keys.front());
    gradients.push_back(tracked.gradients.front());
    if (!options_.update_on_kvstore) continue;
    if (const NDArray* written = tracked.stored.Changed(tracked.weights[0]))
      store_->Set(tracked.keys.front(), *written);
    weights.push_back(tracked.weights.front());
  }
  store_->PushPull(keys, gradients, weights, options);
  if (!options_.update_on_kvstore) return;
  for (const size_t i : indices) tracked_[i].stored.Note(tracked_[i].weights[0]);
}

// Makes OnGradient push with these options until the next step.
void Trainer::Arm(const PushOptions& options) {
  FollowMultipliers();
  BeginStep();
  armed_ = options;
  for (TrackedParameter& tracked : tracked_) {
    tracked.fired = 0;
    tracked.pushed = false;
  }
}

void Trainer::PushDuringBackward(int64_t batch_size) {
  RequirePositive("PushDuringBackward", batch_size);
  // With update_on_kvstore = false, Update divides the sum by the batch size.
  Arm({.divisor =
           options_.update_on_kvstore ? static_cast<double>(batch_size) : sums_->DivisorFor(batch_size)});
}
void Trainer::PushSamplesDuringBackward(uint64_t samples) {
  Arm({.samples = samples});
}

void Trainer::OnGradient(size_t index) {
  if (!armed_) return;
  TrackedParameter& tracked = tracked_[index];
  if (tracked.row_sparse() && tables_->WaitForStep(tracked)) return;
  if (tracked.parameter->grad_req() == autograd::GradReq::kAdd && !autograd::InLastAddition()) return;
  if (++tracked.fired < tracked.parameter->list_ctx().size() || tracked.pushed) return;
  tracked.pushed = true;
  PushPull(index, *armed_);
}

// Throws Error(kFailedPrecondition) when a parameter that is not frozen has no key or a stale gradient.
void Trainer::RequireFresh() const {
  for (const TrackedParameter& tracked : tracked_) {
    if (tracked.frozen()) continue;
    if (!tracked.has_key) internal::ParameterKeys::ThrowNoKey("a step", *tracked.parameter);
    if (!tracked.IsStale()) continue;
    throw Error(
        ErrorCode::kFailedPrecondition,
        StrCat("parameter ", tracked.name(),
               " has a stale gradient: no Backward has written it since the last step on every context; "
               "if that is meant, step or update with ignore_stale"));
  }
}

// Throws Error(kFailedPrecondition) when a weight was written after its gradient had been pushed during
// backward: the store has updated the weight from before, so the write would be lost. It throws once.
void Trainer::RequireUnwritten() {
  const auto written = std::ranges::find_if(tracked_, [](const TrackedParameter& tracked) {
    return !tracked.rests() && tracked.pushed && tracked.stored.Changed(tracked.weights[0]) != nullptr;
  });
  if (written == tracked_.end()) return;
  // The store has what was pushed, so the next step begins as one without PushDuringBackward.
  for (TrackedParameter& tracked : tracked_) {
    if (std::exchange(tracked.pushed, false)) tracked.SeeVersions();
  }
  if (!(config_.normalize_by_samples && armed_->samples == 0 && UpdateHasOnePush())) updates_->Increment();
  armed_.reset();
  throw Error(ErrorCode::kFailedPrecondition,
              StrCat("the weight of parameter ", written->name(),
                     " was written after its gradient had been pushed during backward, and this step would "
                     "replace it: write weights before PushDuringBackward or after the step. The next step "
                     "begins from the weight as it was written"));
}

void Trainer::StepWith(const PushOptions& options, bool ignore_stale) {
  BeginStep();
  if (armed_ && (armed_->divisor != options.divisor || armed_->samples != options.samples))
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("this step is of ", DescribeBatch(options),
                       ", but gradients were pushed during backward with ", DescribeBatch(*armed_),
                       ": give both calls the same number"));
  if (armed_) RequireUnwritten();
  if (!ignore_stale) RequireFresh();
  if (!armed_) FollowMultipliers();  // else Arm has done it
  bool pushed_any = false;
  const bool together = internal::PushesTogether(*store_, tracked_);
  std::vector<size_t> left;  // to be pushed together
  // Whatever a call throws, what was pushed before it is not pushed again by the next step.
  const auto note = [](TrackedParameter& tracked) {
    tracked.SeeVersions();
    tracked.pushed = false;
  };
  for (size_t i = 0; i < tracked_.size(); ++i) {
    TrackedParameter& tracked = tracked_[i];
    if (tracked.rests()) continue;
    const bool pushes = !(armed_ && tracked.pushed) && !tracked.IsStale();
    pushed_any |= pushes || tracked.pushed;
    if (pushes && together && !tracked.row_sparse()) {
      left.push_back(i);
      continue;
    }
    if (pushes) PushPull(i, options);
    note(tracked);
  }
  PushPullTogether(left, options);
  for (const size_t i : left) note(tracked_[i]);
  armed_.reset();
  if (pushed_any && !(config_.normalize_by_samples && options.samples == 0 && UpdateHasOnePush()))
    updates_->Increment();
}

// Returns whether an update of the store contains this worker's push alone.
bool Trainer::UpdateHasOnePush() const {
  return store_->num_workers() == 1 || StoreType::Parse(store_->type()).async;
}

void Trainer::Step(int64_t batch_size, bool ignore_stale) {
  RequirePositive("Step", batch_size);
  if (options_.update_on_kvstore) return StepWith({.divisor = static_cast<double>(batch_size)}, ignore_stale);
  BeginStep();
  if (!ignore_stale) RequireFresh();
  Allreduce(/*stale_too=*/false, sums_->DivisorFor(batch_size));
  Update(batch_size, ignore_stale);
}

void Trainer::StepSamples(uint64_t samples) {
  if (!config_.normalize_by_samples || !options_.update_on_kvstore) {
    throw Error(ErrorCode::kFailedPrecondition,
                "StepSamples needs an optimiser with normalize_by_samples and update_on_kvstore");
  }
  ZeroStaleGrads();
  StepWith({.samples = samples}, /*ignore_stale=*/false);
}

void Trainer::ZeroStaleGrads() {
  for (size_t i = 0; i < tracked_.size(); ++i) {
    FollowVariables(i);
    tracked_[i].ZeroStale();
  }
}

double Trainer::learning_rate() const {
  return rates_->LearningRate(updates_->value() + 1);
}

void Trainer::SetLearningRate(double learning_rate) {
  if (learning_rate == config_.learning_rate) return;
  OptimizerConfig changed = config_;
  changed.learning_rate = learning_rate;
  SetConfig(std::move(changed));
}

void Trainer::FollowMultipliers() {
  const auto wanted = [](const TrackedParameter& tracked) {
    return LrWdMultiplier{tracked.parameter->lr_mult(), tracked.parameter->wd_mult()};
  };
  if (std::ranges::all_of(tracked_, [&](const TrackedParameter& tracked) {
        return config_.multipliers.at(tracked.name()) == wanted(tracked);
      }))
    return;
  OptimizerConfig now = config_;
  for (const TrackedParameter& tracked : tracked_) now.multipliers[tracked.name()] = wanted(tracked);
  SetConfig(std::move(now));
}

void Trainer::SetConfig(OptimizerConfig changed) {
  if (options_.update_on_kvstore) {
    store_->SetOptimizer(changed);
  } else {
    local_update_->Set(changed);
  }
  rates_ = Optimizer::Create(changed);
  config_ = std::move(changed);
}

void Trainer::SaveStates(const std::string& path) {
  keys_->RequireComplete("SaveStates");
  if (options_.update_on_kvstore) return store_->SaveOptimizerStates(path);
  local_update_->Save(path);
}

void Trainer::LoadStates(const std::string& path) {
  keys_->RequireComplete("LoadStates");
  if (!options_.update_on_kvstore) {
    local_update_->Load(path, *store_);
    updates_->Take();
    return;
  }
  std::optional<Error> failure;
  try {
    store_->LoadOptimizerStates(path);
  } catch (const Error& error) {
    failure = error;
  }
  updates_->Agree(failure);
}

}  // namespace sluice

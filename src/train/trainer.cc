// The Trainer's steps (sluice/trainer.h); trainer_keys.cc makes its keys.
//
// With update_on_kvstore a step pushes gradients and pulls weights that the store has updated.
// Otherwise it pulls the sums of gradients, and LocalUpdate updates on each context. A gradient is
// stale when its version is still the one in Tracked::seen, the version at the last step. All methods
// run on the training thread, OnGradient within Backward. Variables, arrays and multipliers of
// parameters may change between steps; each step follows them first.
#include "sluice/trainer.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/log.h"
#include "base/strings.h"
#include "sluice/autograd.h"
#include "sluice/error.h"
#include "sluice/store_type.h"
#include "tensor/access.h"
#include "train/global_norm.h"
#include "train/local_update.h"
#include "train/own_store.h"
#include "train/stored_weights.h"

namespace sluice {

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

}  // namespace

Trainer::Trainer(nn::ParameterDict parameters, OptimizerConfig optimizer, std::shared_ptr<KVStore> store,
                 TrainerOptions options)
    : config_(Resolved(std::move(optimizer))),
      store_(train::StoreOrDefault(std::move(store))),
      options_(options) {
  RequireValid(options_, store_->type());
  for (const auto& parameter : parameters) {
    if (!parameter->differentiable()) {
      constants_.push_back(parameter);
      continue;
    }
    config_.multipliers[parameter->name()] = {parameter->lr_mult(), parameter->wd_mult()};
    tracked_.push_back({.parameter = parameter, .keys = {parameter->name()}});
  }
  // This check comes before the keys are made, so that a constructor that throws leaves no keys in the store.
  if (const std::string why = InvalidReason(config_); !why.empty())
    throw Error(ErrorCode::kInvalidArgument, why);
  AwaitShapes();
  InitKeys();
  FollowVariables();
  for (Tracked& tracked : tracked_) {
    if (tracked.has_key) SeeVersions(tracked);
  }
}

Trainer::~Trainer() {
  for (Tracked& tracked : tracked_) {
    for (NDArray& variable : tracked.variables) autograd::SetGradHook(variable, nullptr);
  }
}

void Trainer::BeginStep() {
  RequireNoFailedForward();
  FollowVariables();
}

// Sets the gradient hooks on the parameters' present variables. A change of a parameter's grad_req or
// type makes new variables of its arrays.
void Trainer::FollowVariables() {
  for (size_t i = 0; i < tracked_.size(); ++i) FollowVariablesOf(i);
}

void Trainer::FollowVariablesOf(size_t index) {
  Tracked& tracked = tracked_[index];
  if (!tracked.has_key) return;
  const std::vector<NDArray>& data = tracked.parameter->list_data();
  const size_t wanted = tracked.frozen() ? 0 : data.size();
  if (std::equal(tracked.variables.begin(), tracked.variables.end(), data.begin(),
                 data.begin() + static_cast<ptrdiff_t>(wanted),
                 [](const NDArray& a, const NDArray& b) { return a.node() == b.node(); }))
    return;
  for (NDArray& old : tracked.variables) autograd::SetGradHook(old, nullptr);
  tracked.variables.assign(data.begin(), data.begin() + static_cast<ptrdiff_t>(wanted));
  tracked.seen.assign(data.size(), 0);
  for (NDArray& variable : tracked.variables)
    autograd::SetGradHook(variable, [this, index] { OnGradient(index); });
}

// Notes the present versions of the gradients: from here on they are stale until Backward writes them.
void Trainer::SeeVersions(Tracked& tracked) {
  tracked.seen.clear();
  for (const NDArray& data : tracked.parameter->list_data())
    tracked.seen.push_back(autograd::GradVersion(data));
}

bool Trainer::IsStale(const Tracked& tracked) {
  const auto& data = tracked.parameter->list_data();
  for (size_t i = 0; i < data.size(); ++i) {
    if (autograd::GradVersion(data[i]) == tracked.seen[i]) return true;
  }
  return false;
}

// Takes the parameter's present arrays, which may differ from those of the last step, also in number.
void Trainer::FollowArrays(Tracked& tracked) {
  tracked.weights.resize(1);
  tracked.gradients.resize(1);
  tracked.weights[0] = tracked.parameter->list_data();
  tracked.gradients[0].resize(tracked.weights[0].size());
  for (size_t i = 0; i < tracked.weights[0].size(); ++i)
    tracked.gradients[0][i] = tracked.parameter->grad(tracked.parameter->list_ctx()[i]);
}

void Trainer::PushPull(size_t index, const PushOptions& options) {
  Tracked& tracked = tracked_[index];
  FollowArrays(tracked);
  PushOptions here = options;
  here.priority = -static_cast<int>(index);  // the first layers are needed first
  if (!options_.update_on_kvstore) return store_->PushPull(tracked.keys, tracked.gradients, {}, here);
  if (const NDArray* written = stored_->Changed(index, tracked.weights[0]))
    store_->Set(tracked.keys.front(), *written);
  store_->PushPull(tracked.keys, tracked.gradients, tracked.weights, here);
  stored_->Note(index, tracked.weights[0]);
}

// Makes OnGradient push with these options until the next step.
void Trainer::Arm(const PushOptions& options) {
  FollowMultipliers();
  BeginStep();
  armed_ = options;
  for (Tracked& tracked : tracked_) {
    tracked.fired = 0;
    tracked.pushed = false;
  }
}

void Trainer::PushDuringBackward(int64_t batch_size) {
  // With update_on_kvstore = false, Update divides the sum by the batch size.
  Arm({.divisor = options_.update_on_kvstore ? static_cast<double>(batch_size) : DivisorOfSums(batch_size)});
}
void Trainer::PushSamplesDuringBackward(uint64_t samples) {
  Arm({.samples = samples});
}

void Trainer::OnGradient(size_t index) {
  if (!armed_) return;
  Tracked& tracked = tracked_[index];
  if (tracked.parameter->grad_req() == autograd::GradReq::kAdd) return;  // may not be complete yet
  if (++tracked.fired < tracked.parameter->list_ctx().size() || tracked.pushed) return;
  tracked.pushed = true;
  PushPull(index, *armed_);
}

// Throws Error(kFailedPrecondition) when a parameter that is not frozen has no key or a stale gradient.
void Trainer::RequireFresh() const {
  for (const Tracked& tracked : tracked_) {
    if (tracked.frozen()) continue;
    if (!tracked.has_key) ThrowNoKey("a step", *tracked.parameter);
    if (!IsStale(tracked)) continue;
    throw Error(
        ErrorCode::kFailedPrecondition,
        StrCat("parameter ", tracked.parameter->name(),
               " has a stale gradient: no Backward has written it since the last step on every context; "
               "if that is meant, step or update with ignore_stale"));
  }
}

// Throws Error(kFailedPrecondition) when a weight was written after its gradient had been pushed during
// backward: the store has updated the weight from before, so the write would be lost.
void Trainer::RequireUnwritten() const {
  for (size_t i = 0; i < tracked_.size(); ++i) {
    const Tracked& tracked = tracked_[i];
    if (tracked.rests() || !tracked.pushed || stored_->Changed(i, tracked.weights[0]) == nullptr) continue;
    throw Error(
        ErrorCode::kFailedPrecondition,
        StrCat("the weight of parameter ", tracked.parameter->name(),
               " was written after its gradient had been pushed during backward, which would be lost: "
               "write weights before PushDuringBackward or after the step"));
  }
}

void Trainer::StepWith(const PushOptions& options, bool ignore_stale) {
  BeginStep();
  if (armed_) RequireUnwritten();
  if (!ignore_stale) RequireFresh();
  if (!armed_) FollowMultipliers();  // else Arm has done it
  bool pushed_any = false;
  for (size_t i = 0; i < tracked_.size(); ++i) {
    Tracked& tracked = tracked_[i];
    if (tracked.rests()) continue;
    const bool pushes = !(armed_ && tracked.pushed) && !IsStale(tracked);
    if (pushes) PushPull(i, options);
    pushed_any |= pushes || tracked.pushed;
    SeeVersions(tracked);
    tracked.pushed = false;
  }
  armed_.reset();
  if (pushed_any && !(config_.normalize_by_samples && options.samples == 0 && UpdatesAlone())) ++updates_;
}

// Returns whether an update of the store contains this worker's push alone.
bool Trainer::UpdatesAlone() const {
  return store_->num_workers() == 1 || StoreType::Parse(store_->type()).async;
}

void Trainer::Step(int64_t batch_size, bool ignore_stale) {
  if (batch_size <= 0)
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("Step: the batch size is ", batch_size, "; it must be positive"));
  if (options_.update_on_kvstore) return StepWith({.divisor = static_cast<double>(batch_size)}, ignore_stale);
  BeginStep();
  if (!ignore_stale) RequireFresh();
  Allreduce(/*stale_too=*/false, DivisorOfSums(batch_size));
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
  FollowVariables();
  for (Tracked& tracked : tracked_) {
    const std::vector<NDArray>& data = tracked.variables;
    for (size_t i = 0; i < data.size(); ++i) {
      if (autograd::GradVersion(data[i]) != tracked.seen[i]) continue;
      autograd::Grad(data[i]).Fill(0);
      tracked.seen[i] = UINT64_MAX;  // no version equals it, so the zero gradient is not stale
    }
  }
}

void Trainer::RequireOwnUpdate(const char* what) const {
  if (options_.update_on_kvstore) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        StrCat(
            what,
            ": the store updates the weights; use Step, or make the Trainer with update_on_kvstore = false"));
  }
}

void Trainer::AllreduceGrads() {
  RequireOwnUpdate("AllreduceGrads");
  BeginStep();
  Allreduce(/*stale_too=*/true, 1);
}

// Returns what the store divides the sums of gradients by. A float16 sum over all devices may be infinite
// even if their mean is not, so with float16 parameters this is the least power of two that is not below
// the number of all workers' devices or not below the batch size. A division by a power of two rounds
// only the smallest numbers, and the addends are as coarse there. Without float16 parameters it is 1.
double Trainer::DivisorOfSums(int64_t batch_size) const {
  if (std::ranges::none_of(
          tracked_, [](const Tracked& tracked) { return tracked.parameter->dtype() == DType::kFloat16; }))
    return 1;
  const auto enough = static_cast<uint64_t>(std::max<int64_t>(1, std::min(devices_, batch_size)));
  return static_cast<double>(std::bit_ceil(enough));
}

void Trainer::Allreduce(bool stale_too, double divisor) {
  sums_divisor_ = armed_ ? armed_->divisor : divisor;
  for (size_t i = 0; i < tracked_.size(); ++i) {
    const Tracked& tracked = tracked_[i];
    if (tracked.rests() || (armed_ && tracked.pushed)) continue;
    if (stale_too || !IsStale(tracked)) PushPull(i, {.divisor = sums_divisor_});
  }
  armed_.reset();
}

// Returns what the summed gradients are multiplied by: sums_divisor_ / batch size, and less when they are
// clipped. Every context has the same sums, so the first one's are measured. Since clipping waits for all
// gradients anyway, all workers also take rank 0's learning rate here, which callbacks may have set on rank 0
// alone.
double Trainer::ScaleOfUpdate(int64_t batch_size) {
  const double mean = sums_divisor_ / static_cast<double>(batch_size);
  if (options_.clip_global_norm == 0) return mean;
  const bool shares = store_->num_workers() > 1;
  if (shares) {
    const Key key("Trainer/learning_rate");
    const double mine = store_->rank() == 0 ? config_.learning_rate : -0.0;
    const bool first = !rate_.valid();
    if (first) rate_ = NDArray({1}, cpu(0), DType::kFloat64);
    rate_.Fill(mine);
    if (first) store_->Init(key, rate_);
    store_->PushPull(key, rate_, nullptr, {.uncompressed = true});
  }
  std::vector<NDArray> gradients;
  std::vector<const std::string*> names;
  for (const Tracked& tracked : tracked_) {
    if (tracked.rests() || IsStale(tracked)) continue;
    gradients.push_back(tracked.parameter->grad(tracked.parameter->list_ctx().front()));
    names.push_back(&tracked.parameter->name());
  }
  const train::GlobalNorm sum = train::MeasureGlobalNorm(gradients);
  if (shares) SetLearningRate(rate_.ToVector<double>().front());
  const double norm = sum.value * mean;
  if (!std::isfinite(norm)) WarnOfNorm(norm, sum.not_finite ? *names[*sum.not_finite] : "");
  return std::isfinite(norm) && norm > options_.clip_global_norm ? mean * options_.clip_global_norm / norm
                                                                 : mean;
}

void Trainer::WarnOfNorm(double norm, const std::string& parameter) {
  if (std::exchange(warned_, true)) return;
  LOG(WARNING) << WrapLogged(StrCat("the norm of all gradients is ", norm,
                                    parameter.empty() ? "" : ", first because of " + parameter,
                                    ": nothing is clipped in such steps; this is told once"));
}

// Copies a weight that the program has written to the other contexts, so that all copies stay equal. If
// several were written, the first one counts.
void Trainer::SpreadWritten(size_t index) const {
  const KVStore::Values& weights = tracked_[index].weights[0];
  const NDArray* written = stored_->Changed(index, weights);
  if (written == nullptr) return;
  const autograd::PauseScope pause;
  for (NDArray weight : weights) {
    if (!weight.SharesStorage(*written)) written->CopyTo(&weight);
  }
}

void Trainer::Update(int64_t batch_size, bool ignore_stale) {
  RequireOwnUpdate("Update");
  if (batch_size <= 0)
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("Update: the batch size is ", batch_size, "; it must be positive"));
  BeginStep();
  if (!ignore_stale) RequireFresh();
  FollowMultipliers();
  const double scale = ScaleOfUpdate(batch_size);
  bool updates_any = false;
  for (size_t i = 0; i < tracked_.size(); ++i) {
    Tracked& tracked = tracked_[i];
    tracked.updating = !tracked.rests() && !IsStale(tracked);
    if (!tracked.updating) continue;
    updates_any = true;
    SeeVersions(tracked);
    FollowArrays(tracked);
    SpreadWritten(i);
    local_update_->AddToStep(tracked.parameter->name(), tracked.weights[0], tracked.gradients[0], scale);
  }
  local_update_->Step();
  for (size_t i = 0; i < tracked_.size(); ++i) {
    if (tracked_[i].updating) stored_->Note(i, tracked_[i].weights[0]);
  }
  sums_divisor_ = 1;
  if (updates_any) ++updates_;
}

double Trainer::learning_rate() const {
  return rates_->LearningRate(updates_ + 1);
}

void Trainer::SetLearningRate(double learning_rate) {
  if (learning_rate == config_.learning_rate) return;
  OptimizerConfig changed = config_;
  changed.learning_rate = learning_rate;
  SetConfig(std::move(changed));
}

void Trainer::FollowMultipliers() {
  const auto wanted = [](const Tracked& tracked) {
    return LrWdMultiplier{tracked.parameter->lr_mult(), tracked.parameter->wd_mult()};
  };
  if (std::ranges::all_of(tracked_, [&](const Tracked& tracked) {
        return config_.multipliers.at(tracked.parameter->name()) == wanted(tracked);
      }))
    return;
  OptimizerConfig now = config_;
  for (const Tracked& tracked : tracked_) now.multipliers[tracked.parameter->name()] = wanted(tracked);
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
  RequireKeys("SaveStates");
  if (options_.update_on_kvstore) return store_->SaveOptimizerStates(path);
  local_update_->Save(path);
}

void Trainer::LoadStates(const std::string& path) {
  RequireKeys("LoadStates");
  if (!options_.update_on_kvstore) {
    local_update_->Load(path, *store_);
    updates_ = UpdatesSoFar();
    return;
  }
  std::optional<Error> failure;
  try {
    store_->LoadOptimizerStates(path);
  } catch (const Error& error) {
    failure = error;
  }
  AgreeOnUpdates(failure);
}

}  // namespace sluice

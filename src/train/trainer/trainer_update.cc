// The steps of a Trainer with update_on_kvstore = false, in two halves: the sums of gradients come from the
// store, and LocalUpdate updates the weights of every context. GradientSums knows what the sums were divided
// by. Programs call the methods, and Trainer::Step does.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/strings.h"
#include "sluice/error.h"
#include "sluice/trainer.h"
#include "train/trainer/gradient_sums.h"
#include "train/trainer/local_update.h"
#include "train/trainer/require_positive.h"
#include "train/trainer/tracked_parameter.h"
#include "train/trainer/update_count.h"

namespace sluice {

using internal::TrackedParameter;

void Trainer::RequireOwnUpdate(const char* what) const {
  if (options_.update_on_kvstore) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        StrCat(
            what,
            ": the store updates the weights; use Step, or make the Trainer with update_on_kvstore = false"));
  }
}

void Trainer::AllreduceGrads(std::optional<double> divisor) {
  RequireOwnUpdate("AllreduceGrads");
  if (divisor && (!(*divisor > 0) || !std::isfinite(*divisor)))
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("AllreduceGrads: the divisor is ", *divisor, "; it must be positive and finite"));
  if (!divisor && !armed_) sums_->RequireNoDivisor();
  BeginStep();
  Allreduce(/*stale_too=*/true, divisor.value_or(1));
}

void Trainer::Allreduce(bool stale_too, double divisor) {
  sums_->set_divisor(armed_ ? armed_->divisor : divisor);
  const bool together = internal::PushesTogether(*store_, tracked_);
  std::vector<size_t> left;  // to be pushed together
  for (size_t i = 0; i < tracked_.size(); ++i) {
    const TrackedParameter& tracked = tracked_[i];
    if (tracked.rests() || (armed_ && tracked.pushed)) continue;
    if (!stale_too && tracked.IsStale()) continue;
    together && !tracked.row_sparse() ? left.push_back(i) : PushPull(i, {.divisor = sums_->divisor()});
  }
  PushPullTogether(left, {.divisor = sums_->divisor()});
  armed_.reset();
}

void Trainer::Update(int64_t batch_size, bool ignore_stale) {
  RequireOwnUpdate("Update");
  internal::RequirePositive("Update", batch_size);
  BeginStep();
  if (!ignore_stale) RequireFresh();
  FollowMultipliers();
  if (sums_->shares_rate()) sums_->PushRate(config_.learning_rate);
  const double scale = sums_->ScaleOfUpdate(batch_size);
  if (sums_->shares_rate()) SetLearningRate(sums_->ReadRate());
  bool updates_any = false;
  for (TrackedParameter& tracked : tracked_) {
    tracked.updating = !tracked.rests() && !tracked.IsStale();
    if (!tracked.updating) continue;
    updates_any = true;
    tracked.SeeVersions();
    tracked.FollowArrays();
    tracked.SpreadWritten();
    if (!tracked.row_sparse())
      local_update_->AddToStep(tracked.name(), tracked.weights[0], tracked.gradients[0], scale);
  }
  local_update_->Step();
  for (TrackedParameter& tracked : tracked_) {
    if (!tracked.updating || !tracked.row_sparse()) continue;
    const auto gradients = tracked.parameter->rows().grad(tracked.parameter->list_ctx().front());
    local_update_->UpdateRows(tracked.name(), &tracked.weights[0], gradients, scale);
  }
  for (TrackedParameter& tracked : tracked_) {
    if (tracked.updating) tracked.stored.Note(tracked.weights[0]);
  }
  sums_->set_divisor(1);
  if (updates_any) updates_->Increment();
}

}  // namespace sluice

// GradientSums: divisors, clipping and the probe that shows whether a store sums (gradient_sums.h).
#include "train/trainer/gradient_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "train/trainer/global_norm.h"

namespace sluice::internal {

// Rank 0 pushes 1 and the others 0, so that the result is 1 where the store sums. The same push sums the
// workers' numbers of devices.
void GradientSums::RequireSums() {
  const Key probe("Trainer/probe");
  float devices = 1;
  for (const TrackedParameter& tracked : tracked_)
    devices = std::max(devices, static_cast<float>(tracked.parameter->list_ctx().size()));
  NDArray sums = NDArray::From({store_.rank() == 0 ? 1.0f : 0.0f, devices}, {2});
  store_.Init(probe, sums);
  store_.PushPull(probe, sums, nullptr, {.uncompressed = true});
  const std::vector<float> sum = sums.ToVector();
  devices_ = static_cast<int64_t>(sum[1]);
  if (sum[0] == 1) return;
  throw Error(
      ErrorCode::kFailedPrecondition,
      StrCat("a Trainer with update_on_kvstore = false (clip_global_norm needs that) takes sums from the "
             "store, but this ",
             store_.type(),
             " store updates by itself: it has an optimiser or a server program; take a store without"));
}

double GradientSums::DivisorFor(int64_t batch_size) const {
  if (std::ranges::none_of(tracked_, [](const TrackedParameter& tracked) {
        return tracked.parameter->dtype() == DType::kFloat16;
      }))
    return 1;
  const auto enough = static_cast<uint64_t>(std::max<int64_t>(1, std::min(devices_, batch_size)));
  return static_cast<double>(std::bit_ceil(enough));
}

void GradientSums::RequireNoDivisor() const {
  const double divisor = DivisorFor(std::numeric_limits<int64_t>::max());
  if (divisor == 1) return;
  throw Error(ErrorCode::kInvalidArgument,
              StrCat("AllreduceGrads: the sums of float16 gradients over ", devices_,
                     " devices may be infinite; give a divisor, such as ", divisor,
                     ", by which Update multiplies again"));
}

void GradientSums::PushRate(double learning_rate) {
  const Key key("Trainer/learning_rate");
  const bool first = !rate_.valid();
  if (first) rate_ = NDArray({1}, cpu(0), DType::kFloat64);
  rate_.Fill(store_.rank() == 0 ? learning_rate : -0.0);  // -0 changes no addend
  if (first) store_.Init(key, rate_);
  store_.PushPull(key, rate_, nullptr, {.uncompressed = true});
}

double GradientSums::ScaleOfUpdate(int64_t batch_size) {
  const double mean = divisor_ / static_cast<double>(batch_size);
  if (max_norm_ == 0) return mean;
  std::vector<NDArray> gradients;
  std::vector<const std::string*> names;
  const auto add = [&](const TrackedParameter& tracked, const NDArray& array) {
    if (array.size() == 0) return;
    gradients.push_back(array);
    names.push_back(&tracked.name());
  };
  for (const TrackedParameter& tracked : tracked_) {
    if (tracked.rests() || tracked.IsStale()) continue;
    const Context first = tracked.parameter->list_ctx().front();
    if (tracked.row_sparse()) {
      for (const RowSparse& rows : tracked.parameter->rows().grad(first)) add(tracked, rows.rows);
    } else {
      add(tracked, tracked.parameter->grad(first));
    }
  }
  const train::GlobalNorm sum = train::MeasureGlobalNorm(gradients);
  const double norm = sum.value * mean;
  if (!std::isfinite(norm)) WarnOfNorm(norm, sum.not_finite ? *names[*sum.not_finite] : "");
  return std::isfinite(norm) && norm > max_norm_ ? mean * max_norm_ / norm : mean;
}

void GradientSums::WarnOfNorm(double norm, const std::string& parameter) {
  if (std::exchange(warned_, true)) return;
  LOG(WARNING) << WrapLogged(StrCat("the norm of all gradients is ", norm,
                                    parameter.empty() ? "" : ", first because of " + parameter,
                                    ": nothing is clipped in such steps; this is told once"));
}

}  // namespace sluice::internal

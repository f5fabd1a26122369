// The global norm of a list of arrays, and clipping by it.
//
// Each array is measured and scaled on its own context's stream, in the order of its other uses;
// MeasureGlobalNorm waits for each context's sums and adds them up in the order of the list, so that
// the result does not depend on timing. Trainers, through MeasureGlobalNorm, and programs, through
// ClipGlobalNorm, call this on the training thread.
#include "sluice/clip.h"

#include <cmath>
#include <map>

#include "base/log.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/kernels.h"
#include "tensor/storage.h"
#include "train/trainer/global_norm.h"

namespace sluice {
namespace {

void RequireFloating(const std::vector<NDArray>& arrays) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].valid() && IsFloating(arrays[i].dtype())) continue;
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("ClipGlobalNorm: array ", i, " is ",
                       arrays[i].valid() ? std::string(Name(arrays[i].dtype())) : "no array",
                       "; it takes arrays of floating types"));
  }
}

// Enqueues array's sum of squares, which becomes element `place` of `sums`.
void EnqueueSum(const NDArray& array, const NDArray& sums, size_t place) {
  internal::Launch("norm", array.context(), {array}, {sums},
                   [type = array.dtype(), a = internal::DataOf<std::byte>(array),
                    sum = internal::DataOf<double>(sums) + place, n = array.size()](Kernels& k) {
                     k.SumOfSquares({.dtype = type, .a = a, .sum = sum, .n = n});
                   });
}

// Returns each array's sum of squares. Waits once for each context, since a wait for a card takes as long as
// several of its kernels.
std::vector<double> Measure(const std::vector<NDArray>& arrays) {
  std::map<Context, std::vector<size_t>> places;  // where each context's arrays are in the list
  for (size_t i = 0; i < arrays.size(); ++i) places[arrays[i].context()].push_back(i);
  std::vector<NDArray> sums;
  for (const auto& [context, own] : places) {
    sums.push_back(NDArray::Empty({static_cast<int64_t>(own.size())}, context, DType::kFloat64));
    for (size_t j = 0; j < own.size(); ++j) EnqueueSum(arrays[own[j]], sums.back(), j);
  }
  std::vector<double> results(arrays.size());
  auto sum = sums.begin();
  for (const auto& [context, own] : places) {
    const std::vector<double> values = sum++->ToVector<double>();
    for (size_t j = 0; j < own.size(); ++j) results[own[j]] = values[j];
  }
  return results;
}

void EnqueueScale(double factor, const NDArray& array) {
  internal::Launch("clipping by the global norm", array.context(), {array}, {array},
                   [factor, type = array.dtype(), a = internal::DataOf<std::byte>(array), n = array.size()](
                       Kernels& k) { k.Scale({.dtype = type, .a = a, .factor = factor, .n = n}); });
}

void WarnOf(const train::GlobalNorm& norm, const std::vector<NDArray>& arrays) {
  std::string whose;  // empty when only the sum over all arrays is not finite
  if (norm.not_finite) {
    const NDArray& array = arrays[*norm.not_finite];
    whose = StrCat("array ", *norm.not_finite, " of ", arrays.size(), ", ", Name(array.dtype()), " ",
                   array.shape(), ", holds what is not finite: ");
  }
  LOG(WARNING) << WrapLogged(
      StrCat("ClipGlobalNorm: ", whose, "the norm is ", norm.value, " and nothing is clipped"));
}

}  // namespace

namespace train {

GlobalNorm MeasureGlobalNorm(const std::vector<NDArray>& arrays) {
  double sum = 0;
  GlobalNorm norm;
  const std::vector<double> sums = Measure(arrays);
  for (size_t i = 0; i < sums.size(); ++i) {
    sum += sums[i];
    if (!std::isfinite(sums[i]) && !norm.not_finite) norm.not_finite = i;
  }
  norm.value = std::isnan(sum) ? std::nan("") : std::sqrt(sum);  // a NaN that is never printed "-nan"
  return norm;
}

}  // namespace train

double ClipGlobalNorm(const ArrayList& arrays, double max_norm) {
  if (!(max_norm >= 0)) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("ClipGlobalNorm: max_norm is ", max_norm, "; it must be at least 0"));
  }
  RequireFloating(arrays.arrays());
  const train::GlobalNorm norm = train::MeasureGlobalNorm(arrays.arrays());
  if (!std::isfinite(norm.value)) {
    WarnOf(norm, arrays.arrays());
  } else if (norm.value > max_norm) {
    for (const NDArray& array : arrays) EnqueueScale(max_norm / norm.value, array);
  }
  return norm.value;
}

}  // namespace sluice

// The global norm of a list of arrays, and clipping by it.
//
// Each array is measured and scaled on its own context's stream, in the order of its other uses;
// MeasureGlobalNorm waits for the sums and adds them up in the order of the list, so that the result
// does not depend on timing. Trainers, through MeasureGlobalNorm, and programs, through ClipGlobalNorm,
// call this on the training thread.
#include "sluice/clip.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/log.h"
#include "base/simd.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/access.h"
#include "tensor/types/half.h"
#include "train/trainer/global_norm.h"

namespace sluice {
namespace {

constexpr size_t kLanes = 8;     // partial sums: a fixed order of addition that vectorises
constexpr size_t kBlock = 2048;  // 16-bit elements that are converted at once

struct Lanes {
  double sum[kLanes] = {};
};
template <typename T>
inline void SquaresLoop(const T* values, size_t n, Lanes* lanes) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane)
      lanes->sum[lane] += static_cast<double>(values[i + lane]) * static_cast<double>(values[i + lane]);
  }
  for (size_t lane = 0; i + lane < n; ++lane)
    lanes->sum[lane] += static_cast<double>(values[i + lane]) * static_cast<double>(values[i + lane]);
}
SLUICE_SIMD void AddSquares(const float* values, size_t n, Lanes* lanes) {
  SquaresLoop(values, n, lanes);
}
SLUICE_SIMD void AddSquares(const double* values, size_t n, Lanes* lanes) {
  SquaresLoop(values, n, lanes);
}
// The factor stays a double: it may be too small for a float even where the products are not.
SLUICE_SIMD void Scale(float* values, size_t n, double factor) {
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(values[i] * factor);
}
SLUICE_SIMD void Scale(double* values, size_t n, double factor) {
  for (size_t i = 0; i < n; ++i) values[i] *= factor;
}

// Calls visit(block, n) for blocks of 16-bit elements, as floats. With `back` it stores the blocks
// again after the call.
template <typename Visit>
void ForHalves(DType dtype, std::byte* bytes, size_t n, bool back, Visit&& visit) {
  const auto widen = dtype == DType::kFloat16 ? HalfToFloat : BFloat16ToFloat;
  const auto narrow = dtype == DType::kFloat16 ? FloatToHalf : FloatToBFloat16;
  float block[kBlock];
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t here = std::min(kBlock, n - first);
    widen(bytes + 2 * first, block, here);
    visit(block, here);
    if (back) narrow(block, bytes + 2 * first, here);
  }
}

double SumOfSquares(DType dtype, std::byte* bytes, size_t n) {
  Lanes lanes;
  if (dtype == DType::kFloat32) {
    AddSquares(reinterpret_cast<const float*>(bytes), n, &lanes);
  } else if (dtype == DType::kFloat64) {
    AddSquares(reinterpret_cast<const double*>(bytes), n, &lanes);
  } else {
    ForHalves(dtype, bytes, n, false,
              [&](const float* block, size_t here) { AddSquares(block, here, &lanes); });
  }
  double sum = 0;
  for (const double lane : lanes.sum) sum += lane;
  return sum;
}

void ScaleBy(double factor, DType dtype, std::byte* bytes, size_t n) {
  if (dtype == DType::kFloat32) return Scale(reinterpret_cast<float*>(bytes), n, factor);
  if (dtype == DType::kFloat64) return Scale(reinterpret_cast<double*>(bytes), n, factor);
  ForHalves(dtype, bytes, n, true, [&](float* block, size_t here) { Scale(block, here, factor); });
}

void RequireFloating(const std::vector<NDArray>& arrays) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].valid() && IsFloating(arrays[i].dtype())) continue;
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("ClipGlobalNorm: array ", i, " is ",
                       arrays[i].valid() ? std::string(Name(arrays[i].dtype())) : "no array",
                       "; it takes arrays of floating types"));
  }
}

// Returns each array's sum of squares, and waits for them.
std::vector<double> Measure(const std::vector<NDArray>& arrays) {
  const auto sums = std::make_shared<std::vector<double>>(arrays.size());
  std::vector<Event> ends;
  for (size_t i = 0; i < arrays.size(); ++i) {
    NDArray array = arrays[i];
    const Events after = {ReadyToRead(array)};
    ends.push_back(EnqueueOn(
        array.context(), "norm", after,
        [sums, i, dtype = array.dtype(), keep = HostFrame(array), bytes = MutableHostBytes(array).data(),
         n = static_cast<size_t>(array.size())] { (*sums)[i] = SumOfSquares(dtype, bytes, n); }));
    AddReader(array, ends.back());
  }
  for (const Event& end : ends) end.Wait();
  return *sums;
}

void EnqueueScale(double factor, NDArray array) {
  Events after = PendingUses(array);
  after.push_back(ReadyToRead(array));
  const Event done = EnqueueOn(
      array.context(), "clipping by the global norm", after,
      [factor, dtype = array.dtype(), keep = HostFrame(array), bytes = MutableHostBytes(array).data(),
       n = static_cast<size_t>(array.size())] { ScaleBy(factor, dtype, bytes, n); });
  SetWriter(array, done);
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

double ClipGlobalNorm(const std::vector<NDArray>& arrays, double max_norm) {
  if (!(max_norm >= 0)) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("ClipGlobalNorm: max_norm is ", max_norm, "; it must be at least 0"));
  }
  RequireFloating(arrays);
  const train::GlobalNorm norm = train::MeasureGlobalNorm(arrays);
  if (!std::isfinite(norm.value)) {
    WarnOf(norm, arrays);
  } else if (norm.value > max_norm) {
    for (const NDArray& array : arrays) EnqueueScale(max_norm / norm.value, array);
  }
  return norm.value;
}

}  // namespace sluice

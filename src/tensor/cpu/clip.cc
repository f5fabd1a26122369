// Sums of squares and scaling, for the arrays of which the global norm is clipped. 16-bit elements are
// converted a block at a time, in a buffer on the stack. A sum of squares is added up in blocks of fixed
// length, each in a fixed number of partial sums, and then block by block: it does not depend on the number
// of threads. train/trainer/clip.cc calls the methods, in work on the stream's thread.
#include <algorithm>
#include <numeric>

#include "base/simd.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/parallel.h"
#include "tensor/types/half.h"

namespace sluice::cpu {
namespace {

constexpr size_t kLanes = 8;            // partial sums of a block, which vectorise
constexpr int64_t kSumBlock = kGrain;   // elements that are added up together
constexpr size_t kHalvesAtOnce = 2048;  // 16-bit elements that are converted together

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
SLUICE_SIMD void ScaleLoop(float* values, size_t n, double factor) {
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(values[i] * factor);
}
SLUICE_SIMD void ScaleLoop(double* values, size_t n, double factor) {
  for (size_t i = 0; i < n; ++i) values[i] *= factor;
}

// Calls visit(floats, n) for n 16-bit elements at a time, at most kHalvesAtOnce.
template <typename Visit>
void AsFloats(DType dtype, const std::byte* bytes, size_t n, Visit&& visit) {
  const auto widen = dtype == DType::kFloat16 ? HalfToFloat : BFloat16ToFloat;
  float floats[kHalvesAtOnce];
  for (size_t first = 0; first < n; first += kHalvesAtOnce) {
    const size_t here = std::min(kHalvesAtOnce, n - first);
    widen(bytes + 2 * first, floats, here);
    visit(floats, first, here);
  }
}

double SquaresOfBlock(DType dtype, const void* a, int64_t begin, int64_t end) {
  Lanes lanes;
  const auto n = static_cast<size_t>(end - begin);
  if (dtype == DType::kFloat32) {
    AddSquares(static_cast<const float*>(a) + begin, n, &lanes);
  } else if (dtype == DType::kFloat64) {
    AddSquares(static_cast<const double*>(a) + begin, n, &lanes);
  } else {
    AsFloats(dtype, static_cast<const std::byte*>(a) + 2 * begin, n,
             [&](const float* floats, size_t, size_t here) { AddSquares(floats, here, &lanes); });
  }
  return std::accumulate(std::begin(lanes.sum), std::end(lanes.sum), 0.0);
}

// Scales elements [begin, end).
void ScalePiece(const ScaleArgs& args, int64_t begin, int64_t end) {
  const auto n = static_cast<size_t>(end - begin);
  if (args.dtype == DType::kFloat32) return ScaleLoop(static_cast<float*>(args.a) + begin, n, args.factor);
  if (args.dtype == DType::kFloat64) return ScaleLoop(static_cast<double*>(args.a) + begin, n, args.factor);
  const auto narrow = args.dtype == DType::kFloat16 ? FloatToHalf : FloatToBFloat16;
  std::byte* const bytes = static_cast<std::byte*>(args.a) + 2 * begin;
  AsFloats(args.dtype, bytes, n, [&](float* floats, size_t first, size_t here) {
    ScaleLoop(floats, here, args.factor);
    narrow(floats, bytes + 2 * first, here);
  });
}

}  // namespace

void CpuKernels::SumOfSquares(const SumOfSquaresArgs& args) {
  const int64_t blocks = (args.n + kSumBlock - 1) / kSumBlock;
  sums_.resize(static_cast<size_t>(blocks));
  ParallelFor(blocks, 1, [&](int64_t block, int64_t end) {
    for (; block < end; ++block) {
      const int64_t begin = block * kSumBlock;
      sums_[static_cast<size_t>(block)] =
          SquaresOfBlock(args.dtype, args.a, begin, std::min(begin + kSumBlock, args.n));
    }
  });
  *args.sum = std::accumulate(sums_.begin(), sums_.end(), 0.0);
}

void CpuKernels::Scale(const ScaleArgs& args) {
  ParallelFor(args.n, kGrain, [&](int64_t begin, int64_t end) { ScalePiece(args, begin, end); });
}

}  // namespace sluice::cpu

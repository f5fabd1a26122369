// Batch normalisation of [rows, channels]: sums over the rows, from which each channel's statistics or
// factors follow, and a pass over the elements. It owns nothing: sums lie in the workspace of the stream.
// Invariants: sums are float64 and have an order that depends on the shape alone; the running statistics stay
// as they are once an operation has found a bad input. autograd/ops/norm.cc calls it, in work on the stream.
#include <cmath>

#include "tensor/cuda/columns.cuh"
#include "tensor/cuda/input_check.cuh"
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/map.cuh"

namespace sluice::cuda {
namespace {

__device__ float FactorOf(const float* factors, int64_t channel, float otherwise) {
  return factors != nullptr ? factors[channel] : otherwise;
}

// The first row is the origin of the channels: it is subtracted from all values so that their sums of squares
// do not cancel.
struct MomentTerm {
  const float* x;
  int64_t channels;
  __device__ Pair operator()(int64_t row, int64_t channel) const {
    const double d = static_cast<double>(x[row * channels + channel]) - static_cast<double>(x[channel]);
    return {d, d * d};
  }
};

// Computes a channel's statistics from its moments, and updates the running ones, with the unbiased variance
// (Ioffe, Szegedy 2015, algorithm 2).
struct SetStatistics {
  BatchNormArgs args;
  InputCheck check;
  __device__ void operator()(int64_t c, const Pair& sum) const {
    const BatchNormShape& s = args.shape;
    const auto values = static_cast<double>(s.rows);
    const double offset = sum.first / values, mean = static_cast<double>(args.x[c]) + offset;
    const double squares = std::fmax(sum.second - sum.first * offset, 0.0);
    args.mean[c] = static_cast<float>(mean);
    args.inverse[c] = static_cast<float>(1 / std::sqrt(squares / values + static_cast<double>(s.epsilon)));
    if (HasFailed(check)) return;
    Mix(args.running_mean + c, mean);
    if (s.rows > 1) Mix(args.running_variance + c, squares / (values - 1));
  }
  __device__ void Mix(float* running, double now) const {
    const auto keep = static_cast<double>(args.shape.momentum);
    *running = static_cast<float>(keep * static_cast<double>(*running) + (1 - keep) * now);
  }
};
struct TakeRunning {
  BatchNormArgs args;
  __device__ void operator()(int64_t c) const {
    args.mean[c] = args.running_mean[c];
    args.inverse[c] = 1 / std::sqrt(args.running_variance[c] + args.shape.epsilon);
  }
};

template <typename Index>
struct NormalizeOp {
  BatchNormArgs args;
  __device__ float operator()(int64_t i, float x) const {
    const Index c = static_cast<Index>(i) % static_cast<Index>(args.shape.channels);
    const float scale = args.inverse[c] * FactorOf(args.gamma, c, 1);
    float y = (x - args.mean[c]) * scale + FactorOf(args.beta, c, 0);
    if (args.addend != nullptr) y += args.addend[i];
    return args.shape.relu && y <= 0 ? 0 : y;
  }
};

// The gradient by the result before relu, and the element's distance from the mean.
struct BackwardElement {
  float grad, distance;
  __device__ BackwardElement(const BatchNormBackwardArgs& args, int64_t c, float x, float by_result)
      : grad(by_result), distance(x - args.mean[c]) {
    if (!args.shape.relu) return;
    const float y = distance * (args.inverse[c] * FactorOf(args.gamma, c, 1)) + FactorOf(args.beta, c, 0);
    if (y <= 0) grad = 0;
  }
};

struct GradientTerm {
  BatchNormBackwardArgs args;
  __device__ Pair operator()(int64_t row, int64_t c) const {
    const int64_t at = row * args.shape.channels + c;
    const BackwardElement element(args, c, args.x[at], args.grad[at]);
    return {static_cast<double>(element.grad),
            static_cast<double>(element.grad) * static_cast<double>(element.distance)};
  }
};

// grad_x = g scale - (x - mean) slope - offset. When training, the mean and the variance depend on x too.
struct ChannelSlopes {
  float slope, offset;
};
struct FinishGradients {
  BatchNormBackwardArgs args;
  ChannelSlopes* slopes;  // null if grad_x is not wanted
  __device__ void operator()(int64_t c, const Pair& sum) const {
    const auto inverse = static_cast<double>(args.inverse[c]), values = static_cast<double>(args.shape.rows);
    if (slopes != nullptr) {
      const auto scale = static_cast<double>(args.inverse[c] * FactorOf(args.gamma, c, 1));
      slopes[c] = {0, 0};
      if (args.shape.training) {
        slopes[c] = {static_cast<float>(scale * inverse * inverse * sum.second / values),
                     static_cast<float>(scale * sum.first / values)};
      }
    }
    if (args.grad_gamma != nullptr) args.grad_gamma[c] = static_cast<float>(sum.second * inverse);
    if (args.grad_beta != nullptr) args.grad_beta[c] = static_cast<float>(sum.first);
  }
};

template <typename Index>
struct InputGradientOp {
  BatchNormBackwardArgs args;
  const ChannelSlopes* slopes;
  __device__ float operator()(int64_t i, float x, float by_result) const {
    const Index c = static_cast<Index>(i) % static_cast<Index>(args.shape.channels);
    const BackwardElement element(args, c, x, by_result);
    const float scale = args.inverse[c] * FactorOf(args.gamma, c, 1);
    return element.grad * scale - element.distance * slopes[c].slope - slopes[c].offset;
  }
};

}  // namespace

void CudaKernels::BatchNorm(const BatchNormArgs& args) {
  const BatchNormShape& s = args.shape;
  const int64_t n = s.rows * s.channels;
  if (n == 0) return;
  if (s.training) {
    auto* const parts = workspace_.Take<Pair>(PartsOfColumns(s.rows, s.channels));
    SumColumns(stream_, parts, s.rows, s.channels, MomentTerm{args.x, s.channels},
               SetStatistics{args, Check()});
  } else {
    ForEach(stream_, s.channels, TakeRunning{args});
  }
  WithIndex(n, [&]<typename Index>(Index) { Map(stream_, n, args.out, NormalizeOp<Index>{args}, args.x); });
}

void CudaKernels::BatchNormBackward(const BatchNormBackwardArgs& args) {
  const BatchNormShape& s = args.shape;
  const int64_t n = s.rows * s.channels;
  for (float* const sums : {args.grad_gamma, args.grad_beta}) {
    if (s.rows == 0 && sums != nullptr)
      Fill({.dtype = DType::kFloat32, .out = sums, .value = 0, .n = s.channels});
  }
  if (n == 0) return;
  const size_t parts = PartsOfColumns(s.rows, s.channels);
  auto* const memory = workspace_.Take<Pair>(parts + static_cast<size_t>(s.channels));
  auto* const slopes = reinterpret_cast<ChannelSlopes*>(memory + parts);
  SumColumns(stream_, memory, s.rows, s.channels, GradientTerm{args},
             FinishGradients{args, args.grad_x == nullptr ? nullptr : slopes});
  if (args.grad_x == nullptr) return;
  WithIndex(n, [&]<typename Index>(Index) {
    Map(stream_, n, args.grad_x, InputGradientOp<Index>{args, slopes}, args.x, args.grad);
  });
}

}  // namespace sluice::cuda

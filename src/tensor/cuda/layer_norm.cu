// Layer normalisation of rows. A group of threads computes a row; the gradients of the factors are sums over
// the rows.
#include "tensor/cuda/columns.cuh"
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/rows.cuh"

namespace sluice::cuda {
namespace {

struct NormalizeRow {
  LayerNormArgs args;

  template <typename Group>
  __device__ void operator()(Group, int64_t row) const {
    const int64_t columns = args.columns;
    const float* const x = args.x + row * columns;
    float* const out = args.out + row * columns;
    const auto count = static_cast<double>(columns);
    const auto mean = static_cast<float>(SumOver<Group>(columns, [=](int64_t j) { return x[j]; }) / count);
    const double squares = SumOver<Group>(columns, [=](int64_t j) {
      const float d = x[j] - mean;
      return d * d;
    });
    const auto inverse =
        static_cast<float>(1 / std::sqrt(squares / count + static_cast<double>(args.epsilon)));
    if (Group::Place() == 0) {
      args.mean[row] = mean;
      args.inverse[row] = inverse;
    }
    for (int64_t j = Group::Place(); j < columns; j += Group::kSize) {
      float y = (x[j] - mean) * inverse;
      if (args.gamma != nullptr) y *= args.gamma[j];
      if (args.beta != nullptr) y += args.beta[j];
      out[j] = y;
    }
  }
};

struct BackwardRow {
  LayerNormBackwardArgs args;

  template <typename Group>
  __device__ void operator()(Group, int64_t row) const {
    const int64_t columns = args.columns;
    const float *const x = args.x + row * columns, *const grad = args.grad + row * columns;
    const float *const gamma = args.gamma, mean = args.mean[row], inverse = args.inverse[row];
    const auto scaled = [=](int64_t j) { return gamma != nullptr ? grad[j] * gamma[j] : grad[j]; };
    const double sum = SumOver<Group>(columns, scaled);
    const double product = SumOver<Group>(columns, [=](int64_t j) { return scaled(j) * (x[j] - mean); });
    const auto count = static_cast<double>(columns), wide = static_cast<double>(inverse);
    const auto shift = static_cast<float>(sum / count),
               slope = static_cast<float>(product / count * wide * wide);
    float* const to = args.grad_x + row * columns;
    for (int64_t j = Group::Place(); j < columns; j += Group::kSize)
      to[j] = (scaled(j) - shift - (x[j] - mean) * slope) * inverse;
  }
};

// The terms of grad_gamma and grad_beta.
struct FactorTerm {
  LayerNormBackwardArgs args;
  __device__ Pair operator()(int64_t row, int64_t column) const {
    const int64_t at = row * args.columns + column;
    const float grad = args.grad[at];
    return {static_cast<double>(grad * (args.x[at] - args.mean[row]) * args.inverse[row]),
            static_cast<double>(grad)};
  }
};
struct StoreFactors {
  float *grad_gamma, *grad_beta;
  __device__ void operator()(int64_t column, const Pair& sum) const {
    if (grad_gamma != nullptr) grad_gamma[column] = static_cast<float>(sum.first);
    if (grad_beta != nullptr) grad_beta[column] = static_cast<float>(sum.second);
  }
};

}  // namespace

void CudaKernels::LayerNorm(const LayerNormArgs& args) {
  ForRows(stream_, args.rows, args.columns, NormalizeRow{args});
}

void CudaKernels::LayerNormBackward(const LayerNormBackwardArgs& args) {
  for (float* const sums : {args.grad_gamma, args.grad_beta}) {
    if (args.rows == 0 && sums != nullptr)
      Fill({.dtype = DType::kFloat32, .out = sums, .value = 0, .n = args.columns});
  }
  if (args.rows > 0 && (args.grad_gamma != nullptr || args.grad_beta != nullptr)) {
    auto* const parts = workspace_.Take<Pair>(PartsOfColumns(args.rows, args.columns));
    SumColumns(stream_, parts, args.rows, args.columns, FactorTerm{args},
               StoreFactors{args.grad_gamma, args.grad_beta});
  }
  if (args.grad_x != nullptr) ForRows(stream_, args.rows, args.columns, BackwardRow{args});
}

}  // namespace sluice::cuda

// Losses that compare a prediction with a label element by element, by the formulas of formulas/row_loss.h. A
// group of threads computes a row.
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/map.cuh"
#include "tensor/cuda/rows.cuh"
#include "tensor/formulas/row_loss.h"

namespace sluice::cuda {
namespace {

namespace f = formulas;

template <RowLossKind kKind>
__device__ float LossOf(float p, float l, float rho) {
  if constexpr (kKind == RowLossKind::kSquare) return f::Square(p, l);
  if constexpr (kKind == RowLossKind::kAbsolute) return f::Absolute(p, l);
  if constexpr (kKind == RowLossKind::kHuber) return f::Huber(p, l, rho);
  if constexpr (kKind == RowLossKind::kLogistic) return f::Logistic(p, l);
  if constexpr (kKind == RowLossKind::kDivergence) return f::Divergence(p, l);
}

template <RowLossKind kKind>
__device__ float GradientOf(float p, float l, float rho, float g) {
  if constexpr (kKind == RowLossKind::kSquare) return f::SquareGradient(p, l, g);
  if constexpr (kKind == RowLossKind::kAbsolute) return f::AbsoluteGradient(p, l, g);
  if constexpr (kKind == RowLossKind::kHuber) return f::HuberGradient(p, l, rho, g);
  if constexpr (kKind == RowLossKind::kLogistic) return f::LogisticGradient(p, l, g);
  if constexpr (kKind == RowLossKind::kDivergence) return f::DivergenceGradient(l, g);
}

template <RowLossKind kKind>
struct LossRow {
  RowLossArgs args;
  template <typename Group>
  __device__ void operator()(Group, int64_t row) const {
    const int64_t columns = args.shape.columns;
    const float rho = args.shape.rho;
    const float *const p = args.prediction + row * columns, *const l = args.label + row * columns;
    const double sum = SumOver<Group>(columns, [=](int64_t j) { return LossOf<kKind>(p[j], l[j], rho); });
    if (Group::Place() == 0) args.losses[row] = static_cast<float>(sum / static_cast<double>(columns));
  }
};

template <RowLossKind kKind, typename Index>
struct GradientOp {
  const float* grad;
  Index columns;
  float rho;
  __device__ float operator()(int64_t i, float p, float l) const {
    const float g = grad[static_cast<Index>(i) / columns] / static_cast<float>(columns);
    return GradientOf<kKind>(p, l, rho, g);
  }
};

// Calls call.operator()<kind>().
template <typename Call>
void WithKind(RowLossKind kind, Call&& call) {
  switch (kind) {
    case RowLossKind::kSquare:
      return call.template operator()<RowLossKind::kSquare>();
    case RowLossKind::kAbsolute:
      return call.template operator()<RowLossKind::kAbsolute>();
    case RowLossKind::kHuber:
      return call.template operator()<RowLossKind::kHuber>();
    case RowLossKind::kLogistic:
      return call.template operator()<RowLossKind::kLogistic>();
    case RowLossKind::kDivergence:
      return call.template operator()<RowLossKind::kDivergence>();
  }
}

}  // namespace

void CudaKernels::RowLoss(const RowLossArgs& args) {
  WithKind(args.shape.kind, [&]<RowLossKind kKind>() {
    ForRows(stream_, args.shape.rows, args.shape.columns, LossRow<kKind>{args});
  });
}

void CudaKernels::RowLossBackward(const RowLossBackwardArgs& args) {
  const RowLossShape& s = args.shape;
  WithKind(s.kind, [&]<RowLossKind kKind>() {
    WithIndex(s.rows * s.columns, [&]<typename Index>(Index) {
      Map(stream_, s.rows * s.columns, args.grad_prediction,
          GradientOp<kKind, Index>{args.grad, static_cast<Index>(s.columns), s.rho}, args.prediction,
          args.label);
    });
  });
}

}  // namespace sluice::cuda

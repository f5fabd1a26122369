// Activations and their derivatives: one kernel for each formula of formulas/activation.h.
#include "tensor/cuda/kernels.h"
#include "tensor/cuda/map.cuh"
#include "tensor/formulas/activation.h"

namespace sluice::cuda {
namespace {

namespace f = formulas;

template <ActivationKind kKind>
struct ActivationOp {
  float alpha;
  __device__ float operator()(int64_t, float x) const {
    if constexpr (kKind == ActivationKind::kRelu) return f::Relu(x);
    if constexpr (kKind == ActivationKind::kTanh) return f::Tanh(x);
    if constexpr (kKind == ActivationKind::kSigmoid) return f::Sigmoid(x);
    if constexpr (kKind == ActivationKind::kLeakyRelu) return f::LeakyRelu(x, alpha);
    if constexpr (kKind == ActivationKind::kElu) return f::Elu(x, alpha);
    if constexpr (kKind == ActivationKind::kGelu) return f::Gelu(x);
    if constexpr (kKind == ActivationKind::kSoftplus) return f::Softplus(x);
    if constexpr (kKind == ActivationKind::kSilu) return f::Silu(x);
    if constexpr (kKind == ActivationKind::kSoftsign) return f::Softsign(x);
    if constexpr (kKind == ActivationKind::kLogSigmoid) return f::LogSigmoid(x);
    if constexpr (kKind == ActivationKind::kMish) return f::Mish(x);
  }
};

template <ActivationKind kKind, typename Index>
struct BiasActivationOp {
  const float* bias;
  Index columns;
  float alpha;
  __device__ float operator()(int64_t i, float x) const {
    return ActivationOp<kKind>{alpha}(i, x + bias[static_cast<Index>(i) % columns]);
  }
};

template <ActivationKind kKind>
struct GradientOp {
  float alpha;
  __device__ float operator()(int64_t, float kept, float grad) const {
    if constexpr (kKind == ActivationKind::kRelu) return f::ReluGradient(kept, grad);
    if constexpr (kKind == ActivationKind::kTanh) return f::TanhGradient(kept, grad);
    if constexpr (kKind == ActivationKind::kSigmoid) return f::SigmoidGradient(kept, grad);
    if constexpr (kKind == ActivationKind::kLeakyRelu) return f::LeakyReluGradient(kept, alpha, grad);
    if constexpr (kKind == ActivationKind::kElu) return f::EluGradient(kept, alpha, grad);
    if constexpr (kKind == ActivationKind::kGelu) return f::GeluGradient(kept, grad);
    if constexpr (kKind == ActivationKind::kSoftplus) return f::SoftplusGradient(kept, grad);
    if constexpr (kKind == ActivationKind::kSilu) return f::SiluGradient(kept, grad);
    if constexpr (kKind == ActivationKind::kSoftsign) return f::SoftsignGradient(kept, grad);
    if constexpr (kKind == ActivationKind::kLogSigmoid) return f::LogSigmoidGradient(kept, grad);
    if constexpr (kKind == ActivationKind::kMish) return f::MishGradient(kept, grad);
  }
};

// Calls call.operator()<kind>().
template <typename Call>
void WithKind(ActivationKind kind, Call&& call) {
  switch (kind) {
    case ActivationKind::kRelu:
      return call.template operator()<ActivationKind::kRelu>();
    case ActivationKind::kTanh:
      return call.template operator()<ActivationKind::kTanh>();
    case ActivationKind::kSigmoid:
      return call.template operator()<ActivationKind::kSigmoid>();
    case ActivationKind::kLeakyRelu:
      return call.template operator()<ActivationKind::kLeakyRelu>();
    case ActivationKind::kElu:
      return call.template operator()<ActivationKind::kElu>();
    case ActivationKind::kGelu:
      return call.template operator()<ActivationKind::kGelu>();
    case ActivationKind::kSoftplus:
      return call.template operator()<ActivationKind::kSoftplus>();
    case ActivationKind::kSilu:
      return call.template operator()<ActivationKind::kSilu>();
    case ActivationKind::kSoftsign:
      return call.template operator()<ActivationKind::kSoftsign>();
    case ActivationKind::kLogSigmoid:
      return call.template operator()<ActivationKind::kLogSigmoid>();
    case ActivationKind::kMish:
      return call.template operator()<ActivationKind::kMish>();
  }
}

}  // namespace

void CudaKernels::Activation(const ActivationArgs& args) {
  WithKind(args.shape.kind, [&]<ActivationKind kKind>() {
    Map(stream_, args.n, args.out, ActivationOp<kKind>{args.shape.alpha}, args.x);
  });
}

void CudaKernels::AddBiasAndActivate(const ActivationShape& shape, const AddToRowsArgs& args) {
  const int64_t n = args.rows * args.columns;
  WithKind(shape.kind, [&]<ActivationKind kKind>() {
    WithIndex(n, [&]<typename Index>(Index) {
      Map(stream_, n, args.out,
          BiasActivationOp<kKind, Index>{args.values, static_cast<Index>(args.columns), shape.alpha},
          static_cast<const float*>(args.out));
    });
  });
}

void CudaKernels::ActivationBackward(const ActivationBackwardArgs& args) {
  WithKind(args.shape.kind, [&]<ActivationKind kKind>() {
    Map(stream_, args.n, args.grad_x, GradientOp<kKind>{args.shape.alpha}, args.kept, args.grad);
  });
}

}  // namespace sluice::cuda

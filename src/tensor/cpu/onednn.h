// What oneDNN computes, and the primitives made for it once per shape. Convolution kernels are fastest on
// channels-last images (oneDNN's own choice, `any`, is 1.65x slower for LeNet's second layer on AVX-512), so
// images of several channels are reordered on the way in and out.
#pragma once

#include <map>
#include <memory>

#include "tensor/kernels.h"

namespace sluice::cpu {

class OneDnn {
 public:
  OneDnn();
  ~OneDnn();
  void Conv(const ConvShape& shape, const float* x, const float* weight, const float* bias, float* out);
  void ConvBackward(const ConvShape& shape, const float* x, const float* weight, const float* grad,
                    float* grad_x, float* grad_weight, float* grad_bias);
  // Row-major, out = op(a) op(b) + beta out, op(a) [m, k], op(b) [k, n].
  static void Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
                   const float* b, float beta, float* out);
  void Tanh(const float* x, float* out, int64_t n);
  void Sigmoid(const float* x, float* out, int64_t n);

 private:
  struct Engine;
  struct Plan;
  Plan& PlanFor(const ConvShape& shape, bool has_bias);
  void Eltwise(int algorithm, const float* x, float* out, int64_t n);

  std::unique_ptr<Engine> engine_;
  std::map<std::pair<ConvShape, bool>, std::unique_ptr<Plan>> plans_;
};

}  // namespace sluice::cpu

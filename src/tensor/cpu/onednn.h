// What oneDNN computes, and the primitives made for it once per shape. Convolution kernels are fastest on
// channels-last images (oneDNN's own choice, `any`, is 1.65x slower for LeNet's second layer on AVX-512).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "tensor/kernels.h"

namespace sluice::cpu {

class OneDnn {
 public:
  OneDnn();
  ~OneDnn();
  // Images with their channels last. `after`, one whose derivative comes from its output, is applied to what
  // the convolution leaves.
  void Conv(const ConvShape& shape, const float* x, const float* weight, const float* bias,
            const std::optional<ActivationShape>& after, float* out);
  void ConvBackward(const ConvShape& shape, const float* x, const float* weight, const float* grad,
                    float* grad_x, float* grad_weight, float* grad_bias);
  // Row-major, out = op(a) op(b) + beta out, op(a) [m, k], op(b) [k, n].
  static void Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
                   const float* b, float beta, float* out);
  void Tanh(const float* x, float* out, int64_t n);
  void Sigmoid(const float* x, float* out, int64_t n);

 private:
  struct Engine;
  class Weights;
  class Forward;
  class BackwardData;
  class BackwardWeights;
  struct Eltwise;
  void Run(int algorithm, const float* x, float* out, int64_t n);
  void FitTeam();

  std::unique_ptr<Engine> engine_;
  int threads_ = 0;  // that the primitives were made for
  std::map<std::tuple<ConvShape, bool, std::optional<ActivationShape>>, std::unique_ptr<Forward>> forward_;
  std::map<ConvShape, std::unique_ptr<BackwardData>> backward_data_;
  std::map<std::pair<ConvShape, bool>, std::unique_ptr<BackwardWeights>> backward_weights_;
  std::map<std::pair<int, int64_t>, std::unique_ptr<Eltwise>> eltwise_;
};

}  // namespace sluice::cpu

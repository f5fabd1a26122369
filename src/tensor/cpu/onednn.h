// What oneDNN computes, and the primitives made for it once per shape. Convolution kernels are fastest on
// channels-last images (oneDNN's own choice, `any`, is 1.65x slower for LeNet's second layer on AVX-512).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "tensor/kernels.h"

namespace sluice::cpu {

struct Engine;
struct ProductShape;
class ConvForward;
class ConvBackwardData;
class ConvBackwardWeights;
class Product;

class OneDnn {
 public:
  OneDnn();
  ~OneDnn();
  // Whether there are products of bfloat16 (with AVX-512), and whether they are faster than those of float32:
  // with AMX's tiles, and on AMD's Zen 4. Others begin their dot products of bfloat16 too rarely
  // (docs/benchmarks.md).
  static bool MultipliesBFloat16();
  static bool MultipliesBFloat16Fast();
  // Images with their channels last. `after`, one whose derivative comes from its output, is applied to what
  // the convolution leaves.
  void Conv(const ConvShape& shape, const float* x, const float* weight, const float* bias,
            const std::optional<ActivationShape>& after, float* out);
  void ConvBackward(const ConvShape& shape, const float* x, const float* weight, const float* grad,
                    float* grad_x, float* grad_weight, float* grad_bias);
  // Of the matrices as onednn_product.h says; `bias` with has_bias only.
  void Multiply(const ProductShape& shape, const float* a, const float* b, const float* bias, float* out);
  void Tanh(const float* x, float* out, int64_t n);
  void Sigmoid(const float* x, float* out, int64_t n);

 private:
  struct Eltwise;
  void Run(int algorithm, const float* x, float* out, int64_t n);
  void FitTeam();

  std::unique_ptr<Engine> engine_;
  int threads_ = 0;  // that the primitives were made for
  std::map<std::tuple<ConvShape, bool, std::optional<ActivationShape>>, std::unique_ptr<ConvForward>>
      forward_;
  std::map<ConvShape, std::unique_ptr<ConvBackwardData>> backward_data_;
  std::map<std::pair<ConvShape, bool>, std::unique_ptr<ConvBackwardWeights>> backward_weights_;
  std::map<ProductShape, std::unique_ptr<Product>> products_;
  std::map<std::pair<int, int64_t>, std::unique_ptr<Eltwise>> eltwise_;
};

}  // namespace sluice::cpu

// The operations that oneDNN computes, and the primitives that are made for them, once per
// shape. Convolutions are fastest on channels-last images (oneDNN's own choice, `any`, is 1.65
// times slower for LeNet's second layer on AVX-512). A OneDnn belongs to one stream: it is not
// thread-safe. Methods throw Error(kResourceExhausted) without memory for a new primitive's
// code, and Error(kUnavailable) if a primitive fails to run.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "tensor/kernels/convolution.h"
#include "tensor/product_shape.h"

namespace sluice::cpu {

struct Engine;
class ConvForward;
class ConvBackwardData;
class ConvBackwardWeights;
class Product;

class OneDnn {
 public:
  OneDnn();
  ~OneDnn();
  // MultipliesBFloat16: whether oneDNN has products of bfloat16 here (it needs AVX-512).
  // MultipliesBFloat16Fast: whether they are faster than those of float32, as with AMX and on AMD's Zen 4.
  // Other processors start their dot products of bfloat16 at too low a rate (docs/benchmarks/training.md).
  static bool MultipliesBFloat16();
  static bool MultipliesBFloat16Fast();
  void Convolution(const ConvolutionArgs& args);
  void ConvolutionBackward(const ConvolutionBackwardArgs& args);
  // Multiplies matrices as ProductShape says (tensor/product_shape.h). `bias` is null unless shape.has_bias.
  void Multiply(const ProductShape& shape, const float* a, const float* b, const float* bias, float* out);
  void Tanh(const float* x, float* out, int64_t n);
  void Sigmoid(const float* x, float* out, int64_t n);

 private:
  struct Eltwise;
  void Run(int algorithm, const float* x, float* out, int64_t n);
  void FitTeam();

  std::unique_ptr<Engine> engine_;
  int threads_ = 0;  // the number of threads that the primitives were made for
  std::map<std::tuple<ConvShape, bool, std::optional<ActivationShape>>, std::unique_ptr<ConvForward>>
      forward_;
  std::map<ConvShape, std::unique_ptr<ConvBackwardData>> backward_data_;
  std::map<std::pair<ConvShape, bool>, std::unique_ptr<ConvBackwardWeights>> backward_weights_;
  std::map<ProductShape, std::unique_ptr<Product>> products_;
  std::map<std::pair<int, int64_t>, std::unique_ptr<Eltwise>> eltwise_;
};

}  // namespace sluice::cpu

// Convolutions by oneDNN, each made once for its shape. Only cpu/onednn.cc uses them.
#pragma once

#include <optional>

#include "tensor/cpu/onednn_parts.h"
#include "tensor/kernels/convolution.h"

namespace sluice::cpu {

// oneDNN's descriptions of a convolution's arrays. oneDNN may be given another convolution over
// the same memory (AsOneRow in onednn_conv.cc); the axes of the caller's weights then differ from
// those of oneDNN's. Images have their channels last.
struct ConvDescs {
  explicit ConvDescs(const ConvShape& shape);
  dnnl::convolution_forward::primitive_desc Forward(const dnnl::engine& engine, bool has_bias,
                                                    const dnnl::primitive_attr& attributes = {}) const;

  dnnl::memory::desc src, dst, weights, bias;      // the caller's arrays
  dnnl::memory::desc src_factor, dst_factor, any;  // factors of products; `any`: weights, oneDNN's layout
  dnnl::memory::desc any_float;                    // gradients of weights, oneDNN's layout
  dnnl::memory::dims strides, dilates, pad;

 private:
  ConvDescs(const dnnl::memory::desc& users_weights, const ConvShape& computed);
};

class ConvForward {
 public:
  ConvForward(const Engine& e, const ConvShape& shape, bool has_bias,
              const std::optional<ActivationShape>& after);
  void Run(const float* x, const float* weight, const float* bias, float* out);

 private:
  const Engine& e_;
  const ConvDescs d_;
  const dnnl::convolution_forward::primitive_desc pd_;
  const dnnl::convolution_forward run_;
  Input src_, weights_;
  dnnl::memory dst_, bias_;
  Arguments arguments_;
};

class ConvBackwardData {
 public:
  ConvBackwardData(const Engine& e, const ConvShape& shape);
  void Run(const float* weight, const float* grad, float* grad_x);

 private:
  const Engine& e_;
  const ConvDescs d_;
  const dnnl::convolution_backward_data::primitive_desc pd_;
  const dnnl::convolution_backward_data run_;
  Input weights_, grad_;
  dnnl::memory grad_x_;
  Arguments arguments_;
};

class ConvBackwardWeights {
 public:
  ConvBackwardWeights(const Engine& e, const ConvShape& shape, bool has_bias);
  void Run(const float* x, const float* grad, float* grad_weight, float* grad_bias);

 private:
  const Engine& e_;
  const ConvDescs d_;
  const dnnl::convolution_backward_weights::primitive_desc pd_;
  const dnnl::convolution_backward_weights run_;
  Input src_, grad_;
  Output grad_weights_;
  dnnl::memory grad_bias_;
  Arguments arguments_;
};

}  // namespace sluice::cpu

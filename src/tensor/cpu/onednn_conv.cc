// Convolutions by oneDNN's direct algorithm: one class for the forward pass and one for each of the two
// backward passes. Constructors make the primitive, which is slow; Run points its memory objects at the
// caller's arrays, converts inputs where the primitive wants another layout or type, and executes it. OneDnn
// (onednn.cc) owns the objects, by shape, and calls them on the stream's thread.
#include "tensor/cpu/onednn_conv.h"

#include "base/check.h"

namespace sluice::cpu {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

namespace {

// Whether the window is as wide as the image, so that each row of the result has one pixel only. oneDNN's
// kernels compute many results of a row at once and would be slow, so AsOneRow describes the same
// convolution as one over an image of a single row: each row of the real image, which lies channels last,
// becomes one pixel, with the channels of all its columns as its channels.
bool CoversRows(const ConvShape& s) {
  const WindowShape& w = s.window;
  return w.width == s.in_width && w.full_width() == s.in_width && w.pad_width == 0 &&
         (s.groups == 1 || s.in_width == 1) && s.out_height() > 1;  // one result is a plain product
}

ConvShape AsOneRow(const ConvShape& s) {
  if (!CoversRows(s)) return s;
  const WindowShape& w = s.window;
  const WindowShape window = {.width = w.height,
                              .stride_width = w.stride_height,
                              .pad_width = w.pad_height,
                              .dilation_width = w.dilation_height};
  return {s.batch,     s.in_channels * s.in_width, 1, s.in_height, s.out_channels, window, s.groups,
          s.arithmetic};
}

memory::desc WeightsOf(const ConvShape& s) {
  const int64_t out = s.out_channels / s.groups, in = s.in_channels / s.groups;
  if (s.groups == 1) return {{out, in, s.window.height, s.window.width}, kFloat, Tag::oihw};
  return {{s.groups, out, in, s.window.height, s.window.width}, kFloat, Tag::goihw};
}

// Describes the caller's weights. Where a row becomes a pixel (CoversRows), the axes are put in the order of
// the pixel's channels: [out, width, in_channels, height].
memory::desc UsersWeightsOf(const ConvShape& s) {
  if (!CoversRows(s) || s.in_width == 1) return WeightsOf(AsOneRow(s));
  const int64_t height = s.window.height, width = s.window.width, size = height * width;
  return {{s.out_channels, width, s.in_channels, height}, kFloat, {s.in_channels * size, 1, size, width}};
}

dnnl::primitive_attr AttributesOf(const std::optional<ActivationShape>& after) {
  dnnl::primitive_attr attributes;
  if (!after) return attributes;
  using A = dnnl::algorithm;
  const auto algorithm = [&] {
    switch (after->kind) {
      case ActivationKind::kRelu:
      case ActivationKind::kLeakyRelu:
        return A::eltwise_relu;
      case ActivationKind::kTanh:
        return A::eltwise_tanh;
      case ActivationKind::kSigmoid:
        return A::eltwise_logistic;
      case ActivationKind::kElu:
        return A::eltwise_elu;
      default:
        SLUICE_CHECK(false) << "no activation whose derivative comes from its output";
    }
    return A::undef;
  }();
  dnnl::post_ops post;
  post.append_eltwise(1, algorithm, after->alpha, 0);
  attributes.set_post_ops(post);
  return attributes;
}

dnnl::convolution_backward_data::primitive_desc BackwardDataOf(const ConvDescs& d, const Engine& e) {
  using D = dnnl::convolution_backward_data;
  return {D::desc(kDirect, d.src, d.any, d.dst_factor, d.strides, d.dilates, d.pad, d.pad), e.engine,
          d.Forward(e.engine, false)};
}

dnnl::convolution_backward_weights::primitive_desc BackwardWeightsOf(const ConvDescs& d, const Engine& e,
                                                                     bool has_bias) {
  using W = dnnl::convolution_backward_weights;
  return {has_bias
              ? W::desc(kDirect, d.src_factor, d.any_float, d.bias, d.dst_factor, d.strides, d.dilates, d.pad,
                        d.pad)
              : W::desc(kDirect, d.src_factor, d.any_float, d.dst_factor, d.strides, d.dilates, d.pad, d.pad),
          e.engine, d.Forward(e.engine, has_bias)};
}

}  // namespace

ConvDescs::ConvDescs(const ConvShape& shape) : ConvDescs(UsersWeightsOf(shape), AsOneRow(shape)) {}

ConvDescs::ConvDescs(const memory::desc& users_weights, const ConvShape& computed)
    : weights(users_weights),
      bias({computed.out_channels}, kFloat, Tag::x),
      strides{computed.window.stride_height, computed.window.stride_width},
      dilates{computed.window.dilation_height - 1, computed.window.dilation_width - 1},
      pad{computed.window.pad_height, computed.window.pad_width} {
  const memory::dims in = {computed.batch, computed.in_channels, computed.in_height, computed.in_width};
  const memory::dims out = {computed.batch, computed.out_channels, computed.out_height(),
                            computed.out_width()};
  const auto factor = FactorType(computed.arithmetic);
  src = {in, kFloat, Tag::nhwc};
  dst = {out, kFloat, Tag::nhwc};
  src_factor = {in, factor, Tag::nhwc};
  dst_factor = {out, factor, Tag::nhwc};
  const memory::dims kernel = WeightsOf(computed).dims();
  any = {kernel, factor, Tag::any};
  any_float = {kernel, kFloat, Tag::any};
}

dnnl::convolution_forward::primitive_desc ConvDescs::Forward(const dnnl::engine& engine, bool has_bias,
                                                             const dnnl::primitive_attr& attributes) const {
  using F = dnnl::convolution_forward;
  constexpr auto kKind = dnnl::prop_kind::forward_training;
  return {has_bias ? F::desc(kKind, kDirect, src_factor, any, bias, dst, strides, dilates, pad, pad)
                   : F::desc(kKind, kDirect, src_factor, any, dst, strides, dilates, pad, pad),
          attributes, engine};
}

ConvForward::ConvForward(const Engine& e, const ConvShape& shape, bool has_bias,
                         const std::optional<ActivationShape>& after)
    : e_(e),
      d_(shape),
      pd_(d_.Forward(e.engine, has_bias, AttributesOf(after))),
      run_(pd_),
      src_(e, d_.src, d_.src_factor),
      weights_(e, d_.weights, pd_.weights_desc()),
      dst_(e.Unbound(d_.dst)) {
  arguments_ = {{DNNL_ARG_SRC, src_.chosen()}, {DNNL_ARG_WEIGHTS, weights_.chosen()}, {DNNL_ARG_DST, dst_}};
  if (has_bias) arguments_.Add(DNNL_ARG_BIAS, bias_ = e.Unbound(d_.bias));
}

void ConvForward::Run(const float* x, const float* weight, const float* bias, float* out) {
  e_.Point(dst_, out);
  if (bias != nullptr) e_.Point(bias_, bias);
  src_.Bring(x);
  weights_.Bring(weight);
  arguments_.Execute(run_, e_.stream);
}

ConvBackwardData::ConvBackwardData(const Engine& e, const ConvShape& shape)
    : e_(e),
      d_(shape),
      pd_(BackwardDataOf(d_, e)),
      run_(pd_),
      weights_(e, d_.weights, pd_.weights_desc()),
      grad_(e, d_.dst, d_.dst_factor),
      grad_x_(e.Unbound(d_.src)) {
  arguments_ = {{DNNL_ARG_DIFF_DST, grad_.chosen()},
                {DNNL_ARG_WEIGHTS, weights_.chosen()},
                {DNNL_ARG_DIFF_SRC, grad_x_}};
}

void ConvBackwardData::Run(const float* weight, const float* grad, float* grad_x) {
  e_.Point(grad_x_, grad_x);
  grad_.Bring(grad);
  weights_.Bring(weight);
  arguments_.Execute(run_, e_.stream);
}

ConvBackwardWeights::ConvBackwardWeights(const Engine& e, const ConvShape& shape, bool has_bias)
    : e_(e),
      d_(shape),
      pd_(BackwardWeightsOf(d_, e, has_bias)),
      run_(pd_),
      src_(e, d_.src, d_.src_factor),
      grad_(e, d_.dst, d_.dst_factor),
      grad_weights_(e, d_.weights, pd_.diff_weights_desc()) {
  arguments_ = {{DNNL_ARG_SRC, src_.chosen()},
                {DNNL_ARG_DIFF_DST, grad_.chosen()},
                {DNNL_ARG_DIFF_WEIGHTS, grad_weights_.chosen()}};
  if (has_bias) arguments_.Add(DNNL_ARG_DIFF_BIAS, grad_bias_ = e.Unbound(d_.bias));
}

void ConvBackwardWeights::Run(const float* x, const float* grad, float* grad_weight, float* grad_bias) {
  if (grad_bias != nullptr) e_.Point(grad_bias_, grad_bias);
  grad_weights_.Point(grad_weight);
  src_.Bring(x);
  grad_.Bring(grad);
  arguments_.Execute(run_, e_.stream);
  grad_weights_.Deliver();
}

}  // namespace sluice::cpu

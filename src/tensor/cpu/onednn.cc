#include "tensor/cpu/onednn.h"

#include <cstring>
#include <dnnl.hpp>
#include <unordered_map>

#include "base/check.h"

namespace sluice::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

memory::desc Image(int64_t n, int64_t c, int64_t h, int64_t w, Tag tag) {
  return {{n, c, h, w}, memory::data_type::f32, tag};
}

memory::desc Weights(const ConvShape& s) {
  const int64_t out = s.out_channels / s.groups, in = s.in_channels / s.groups;
  if (s.groups == 1) return {{out, in, s.window.height, s.window.width}, memory::data_type::f32, Tag::oihw};
  return {{s.groups, out, in, s.window.height, s.window.width}, memory::data_type::f32, Tag::goihw};
}

void* Mutable(const float* data) {
  return const_cast<float*>(data);
}

}  // namespace

struct OneDnn::Engine {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  struct EltwiseKey {
    int algorithm;
    int64_t n;
    auto operator<=>(const EltwiseKey&) const = default;
  };
  std::map<EltwiseKey, dnnl::eltwise_forward> eltwise;
};

// The primitives of one convolution, and the memory that reorders go through.
struct OneDnn::Plan {
  Plan(const ConvShape& s, bool with_bias, Engine& owner)
      : shape(s),
        has_bias(with_bias),
        e(owner),
        src_user(Image(s.batch, s.in_channels, s.in_height, s.in_width, Tag::nchw)),
        dst_user(Image(s.batch, s.out_channels, s.out_height(), s.out_width(), Tag::nchw)),
        weights_user(Weights(s)),
        bias_md({s.out_channels}, memory::data_type::f32, Tag::x) {
    const memory::dims strides = {s.window.stride_height, s.window.stride_width},
                       dilates = {s.window.dilation_height - 1, s.window.dilation_width - 1},
                       pad = {s.window.pad_height, s.window.pad_width};
    const auto src_md = Image(s.batch, s.in_channels, s.in_height, s.in_width, Tag::nhwc);
    const auto dst_md = Image(s.batch, s.out_channels, s.out_height(), s.out_width(), Tag::nhwc);
    const memory::desc weights_any(weights_user.dims(), memory::data_type::f32, Tag::any);
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const auto kind = dnnl::prop_kind::forward_training;
    using F = dnnl::convolution_forward;
    using D = dnnl::convolution_backward_data;
    using W = dnnl::convolution_backward_weights;
    const F::desc forward_desc =
        has_bias ? F::desc(kind, algorithm, src_md, weights_any, bias_md, dst_md, strides, dilates, pad, pad)
                 : F::desc(kind, algorithm, src_md, weights_any, dst_md, strides, dilates, pad, pad);
    const F::primitive_desc forward_pd(forward_desc, e.engine);
    const D::primitive_desc data_pd(
        D::desc(algorithm, src_md, weights_any, dst_md, strides, dilates, pad, pad), e.engine, forward_pd);
    const W::desc weights_desc =
        has_bias ? W::desc(algorithm, src_md, weights_any, bias_md, dst_md, strides, dilates, pad, pad)
                 : W::desc(algorithm, src_md, weights_any, dst_md, strides, dilates, pad, pad);
    const W::primitive_desc weights_pd(weights_desc, e.engine, forward_pd);
    forward = F(forward_pd);
    backward_data = D(data_pd);
    backward_weights = W(weights_pd);
    src = memory(src_md, e.engine);
    dst = memory(dst_md, e.engine);
    weights = memory(forward_pd.weights_desc(), e.engine);
    weights_data = memory(data_pd.weights_desc(), e.engine);
    weights_grad = memory(weights_pd.diff_weights_desc(), e.engine);
  }

  // `user` in the plan's layout: itself where the bytes are the same, else reordered into `scratch`.
  memory In(const memory::desc& user, const float* data, memory& scratch, bool same) {
    if (same) return memory(scratch.get_desc(), e.engine, Mutable(data));
    memory from(user, e.engine, Mutable(data));
    dnnl::reorder(from, scratch).execute(e.stream, from, scratch);
    return scratch;
  }
  memory OutPlace(memory& scratch, float* data, bool same) {
    return same ? memory(scratch.get_desc(), e.engine, data) : scratch;
  }
  void OutDone(memory& from, const memory::desc& user, float* data, bool same) {
    if (same) return;
    memory to(user, e.engine, data);
    dnnl::reorder(from, to).execute(e.stream, from, to);
  }
  bool SrcSame() const { return shape.in_channels == 1 || shape.in_height * shape.in_width == 1; }
  bool DstSame() const { return shape.out_channels == 1 || shape.out_height() * shape.out_width() == 1; }

  const ConvShape shape;
  const bool has_bias;
  Engine& e;
  memory::desc src_user, dst_user, weights_user, bias_md;
  dnnl::convolution_forward forward;
  dnnl::convolution_backward_data backward_data;
  dnnl::convolution_backward_weights backward_weights;
  memory src, dst, weights, weights_data, weights_grad;
};

OneDnn::OneDnn() : engine_(std::make_unique<Engine>()) {}
OneDnn::~OneDnn() = default;

OneDnn::Plan& OneDnn::PlanFor(const ConvShape& shape, bool has_bias) {
  std::unique_ptr<Plan>& plan = plans_[{shape, has_bias}];
  if (plan == nullptr) plan = std::make_unique<Plan>(shape, has_bias, *engine_);
  return *plan;
}

void OneDnn::Conv(const ConvShape& shape, const float* x, const float* weight, const float* bias,
                  float* out) {
  Plan& p = PlanFor(shape, bias != nullptr);
  memory src = p.In(p.src_user, x, p.src, p.SrcSame());
  memory weights = p.In(p.weights_user, weight, p.weights, false);
  memory dst = p.OutPlace(p.dst, out, p.DstSame());
  std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, dst}};
  if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, memory(p.bias_md, p.e.engine, Mutable(bias)));
  p.forward.execute(p.e.stream, arguments);
  p.OutDone(dst, p.dst_user, out, p.DstSame());
  p.e.stream.wait();
}

void OneDnn::ConvBackward(const ConvShape& shape, const float* x, const float* weight, const float* grad,
                          float* grad_x, float* grad_weight, float* grad_bias) {
  Plan& p = PlanFor(shape, grad_bias != nullptr);
  memory diff_dst = p.In(p.dst_user, grad, p.dst, p.DstSame());
  if (grad_weight != nullptr) {
    memory src = p.In(p.src_user, x, p.src, p.SrcSame());
    std::unordered_map<int, memory> arguments = {
        {DNNL_ARG_SRC, src}, {DNNL_ARG_DIFF_DST, diff_dst}, {DNNL_ARG_DIFF_WEIGHTS, p.weights_grad}};
    if (grad_bias != nullptr) arguments.emplace(DNNL_ARG_DIFF_BIAS, memory(p.bias_md, p.e.engine, grad_bias));
    p.backward_weights.execute(p.e.stream, arguments);
    p.OutDone(p.weights_grad, p.weights_user, grad_weight, false);
  }
  if (grad_x != nullptr) {
    memory weights = p.In(p.weights_user, weight, p.weights_data, false);
    memory diff_src = p.OutPlace(p.src, grad_x, p.SrcSame());
    p.backward_data.execute(
        p.e.stream,
        {{DNNL_ARG_DIFF_DST, diff_dst}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_SRC, diff_src}});
    p.OutDone(diff_src, p.src_user, grad_x, p.SrcSame());
  }
  p.e.stream.wait();
}

void OneDnn::Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
                  const float* b, float beta, float* out) {
  if (m == 0 || n == 0) return;
  if (k == 0) {  // sgemm refuses it; the product is zero
    if (beta == 0) std::memset(out, 0, static_cast<size_t>(m * n) * sizeof(float));
    return;
  }
  const auto status = dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a,
                                 transpose_a ? m : k, b, transpose_b ? k : n, beta, out, n);
  SLUICE_CHECK(status == dnnl_success) << "sgemm " << m << " x " << n << " x " << k << ": status " << status;
}

void OneDnn::Eltwise(int algorithm, const float* x, float* out, int64_t n) {
  const memory::desc md({n}, memory::data_type::f32, Tag::x);
  auto it = engine_->eltwise.find({algorithm, n});
  if (it == engine_->eltwise.end()) {
    const dnnl::eltwise_forward::desc desc(dnnl::prop_kind::forward_inference,
                                           static_cast<dnnl::algorithm>(algorithm), md, 0, 0);
    const dnnl::eltwise_forward::primitive_desc pd(desc, engine_->engine);
    it = engine_->eltwise.emplace(Engine::EltwiseKey{algorithm, n}, dnnl::eltwise_forward(pd)).first;
  }
  it->second.execute(engine_->stream, {{DNNL_ARG_SRC, memory(md, engine_->engine, Mutable(x))},
                                       {DNNL_ARG_DST, memory(md, engine_->engine, out)}});
  engine_->stream.wait();
}

void OneDnn::Tanh(const float* x, float* out, int64_t n) {
  Eltwise(static_cast<int>(dnnl::algorithm::eltwise_tanh), x, out, n);
}
void OneDnn::Sigmoid(const float* x, float* out, int64_t n) {
  Eltwise(static_cast<int>(dnnl::algorithm::eltwise_logistic), x, out, n);
}

}  // namespace sluice::cpu

#include "tensor/cpu/onednn.h"

#include <omp.h>

#include <cstring>
#include <dnnl.hpp>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::cpu {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto kFloat = memory::data_type::f32;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

struct OneDnn::Engine {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};

  // Memory of the caller's, which each run names.
  memory Borrowed(const memory::desc& desc) const { return {desc, engine, DNNL_MEMORY_NONE}; }
  void Point(memory& at, const float* data) const { at.set_data_handle(const_cast<float*>(data), stream); }
};

namespace {

// What a primitive works on, named once: oneDNN's own `execute` would copy the list every time.
class Arguments {
 public:
  Arguments() = default;
  Arguments(std::initializer_list<std::pair<int, memory>> arguments) {
    for (const auto& [name, memory] : arguments) Add(name, memory);
  }
  void Add(int name, const memory& memory) {
    list_.push_back({name, memory.get()});
    held_.push_back(memory);
  }
  void Execute(const dnnl::primitive& primitive, const dnnl::stream& stream) const {
    const auto status =
        dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(list_.size()), list_.data());
    if (status != dnnl_success)
      throw Error(ErrorCode::kUnavailable, StrCat("oneDNN could not compute it: status ", status));
  }

 private:
  std::vector<dnnl_exec_arg_t> list_;
  std::vector<memory> held_;
};

memory::desc Image(int64_t n, int64_t c, int64_t h, int64_t w) {
  return {{n, c, h, w}, kFloat, Tag::nhwc};
}

// A convolution's shapes in oneDNN's words.
struct Descs {
  explicit Descs(const ConvShape& s)
      : src(Image(s.batch, s.in_channels, s.in_height, s.in_width)),
        dst(Image(s.batch, s.out_channels, s.out_height(), s.out_width())),
        user_weights(Weights(s)),
        weights(user_weights.dims(), kFloat, Tag::any),  // oneDNN's choice
        bias({s.out_channels}, kFloat, Tag::x),
        strides{s.window.stride_height, s.window.stride_width},
        dilates{s.window.dilation_height - 1, s.window.dilation_width - 1},
        pad{s.window.pad_height, s.window.pad_width} {}

  static memory::desc Weights(const ConvShape& s) {
    const int64_t out = s.out_channels / s.groups, in = s.in_channels / s.groups;
    if (s.groups == 1) return {{out, in, s.window.height, s.window.width}, kFloat, Tag::oihw};
    return {{s.groups, out, in, s.window.height, s.window.width}, kFloat, Tag::goihw};
  }

  dnnl::convolution_forward::primitive_desc Forward(const dnnl::engine& engine, bool has_bias,
                                                    const dnnl::primitive_attr& attributes = {}) const {
    using F = dnnl::convolution_forward;
    constexpr auto kKind = dnnl::prop_kind::forward_training;
    return {has_bias ? F::desc(kKind, kDirect, src, weights, bias, dst, strides, dilates, pad, pad)
                     : F::desc(kKind, kDirect, src, weights, dst, strides, dilates, pad, pad),
            attributes, engine};
  }

  memory::desc src, dst, user_weights, weights, bias;
  memory::dims strides, dilates, pad;
};

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

}  // namespace

// Weights, or their gradient, in the layout that a primitive chose, and the caller's.
class OneDnn::Weights {
 public:
  Weights(const Engine& e, const memory::desc& chosen, const memory::desc& users, bool are_gradient)
      : e_(e), users_(e.Borrowed(users)), chosen_(chosen, e.engine) {
    const memory &from = are_gradient ? chosen_ : users_, &to = are_gradient ? users_ : chosen_;
    reorder_ = dnnl::reorder(from, to);
    arguments_ = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
  }
  const memory& chosen() const { return chosen_; }
  // Weights from the caller, a gradient to it.
  void Move(const float* users) {
    e_.Point(users_, users);
    arguments_.Execute(reorder_, e_.stream);
  }

 private:
  const Engine& e_;
  memory users_, chosen_;
  dnnl::reorder reorder_;
  Arguments arguments_;
};

class OneDnn::Forward {
 public:
  Forward(const Engine& e, const ConvShape& shape, bool has_bias, const std::optional<ActivationShape>& after)
      : e_(e), d_(shape) {
    const auto pd = d_.Forward(e.engine, has_bias, AttributesOf(after));
    run_ = dnnl::convolution_forward(pd);
    weights_.emplace(e, pd.weights_desc(), d_.user_weights, /*are_gradient=*/false);
    arguments_ = {{DNNL_ARG_SRC, src_ = e.Borrowed(d_.src)},
                  {DNNL_ARG_WEIGHTS, weights_->chosen()},
                  {DNNL_ARG_DST, dst_ = e.Borrowed(d_.dst)}};
    if (has_bias) arguments_.Add(DNNL_ARG_BIAS, bias_ = e.Borrowed(d_.bias));
  }

  void Run(const float* x, const float* weight, const float* bias, float* out) {
    e_.Point(src_, x);
    e_.Point(dst_, out);
    if (bias != nullptr) e_.Point(bias_, bias);
    weights_->Move(weight);
    arguments_.Execute(run_, e_.stream);
  }

 private:
  const Engine& e_;
  const Descs d_;
  dnnl::convolution_forward run_;
  std::optional<Weights> weights_;
  memory src_, dst_, bias_;
  Arguments arguments_;
};

class OneDnn::BackwardData {
 public:
  BackwardData(const Engine& e, const ConvShape& shape) : e_(e), d_(shape) {
    using D = dnnl::convolution_backward_data;
    const D::primitive_desc pd(
        D::desc(kDirect, d_.src, d_.weights, d_.dst, d_.strides, d_.dilates, d_.pad, d_.pad), e.engine,
        d_.Forward(e.engine, false));
    run_ = D(pd);
    weights_.emplace(e, pd.weights_desc(), d_.user_weights, /*are_gradient=*/false);
    arguments_ = {{DNNL_ARG_DIFF_DST, grad_ = e.Borrowed(d_.dst)},
                  {DNNL_ARG_WEIGHTS, weights_->chosen()},
                  {DNNL_ARG_DIFF_SRC, grad_x_ = e.Borrowed(d_.src)}};
  }

  void Run(const float* weight, const float* grad, float* grad_x) {
    e_.Point(grad_, grad);
    e_.Point(grad_x_, grad_x);
    weights_->Move(weight);
    arguments_.Execute(run_, e_.stream);
  }

 private:
  const Engine& e_;
  const Descs d_;
  dnnl::convolution_backward_data run_;
  std::optional<Weights> weights_;
  memory grad_, grad_x_;
  Arguments arguments_;
};

class OneDnn::BackwardWeights {
 public:
  BackwardWeights(const Engine& e, const ConvShape& shape, bool has_bias) : e_(e), d_(shape) {
    using W = dnnl::convolution_backward_weights;
    const W::desc desc =
        has_bias
            ? W::desc(kDirect, d_.src, d_.weights, d_.bias, d_.dst, d_.strides, d_.dilates, d_.pad, d_.pad)
            : W::desc(kDirect, d_.src, d_.weights, d_.dst, d_.strides, d_.dilates, d_.pad, d_.pad);
    const W::primitive_desc pd(desc, e.engine, d_.Forward(e.engine, has_bias));
    run_ = W(pd);
    weights_.emplace(e, pd.diff_weights_desc(), d_.user_weights, /*are_gradient=*/true);
    arguments_ = {{DNNL_ARG_SRC, src_ = e.Borrowed(d_.src)},
                  {DNNL_ARG_DIFF_DST, grad_ = e.Borrowed(d_.dst)},
                  {DNNL_ARG_DIFF_WEIGHTS, weights_->chosen()}};
    if (has_bias) arguments_.Add(DNNL_ARG_DIFF_BIAS, grad_bias_ = e.Borrowed(d_.bias));
  }

  void Run(const float* x, const float* grad, float* grad_weight, float* grad_bias) {
    e_.Point(src_, x);
    e_.Point(grad_, grad);
    if (grad_bias != nullptr) e_.Point(grad_bias_, grad_bias);
    arguments_.Execute(run_, e_.stream);
    weights_->Move(grad_weight);
  }

 private:
  const Engine& e_;
  const Descs d_;
  dnnl::convolution_backward_weights run_;
  std::optional<Weights> weights_;
  memory src_, grad_, grad_bias_;
  Arguments arguments_;
};

struct OneDnn::Eltwise {
  Eltwise(const Engine& e, dnnl::algorithm algorithm, int64_t n) {
    const memory::desc desc({n}, kFloat, Tag::x);
    using F = dnnl::eltwise_forward;
    run = F(F::primitive_desc(F::desc(dnnl::prop_kind::forward_inference, algorithm, desc, 0, 0), e.engine));
    arguments = {{DNNL_ARG_SRC, src = e.Borrowed(desc)}, {DNNL_ARG_DST, dst = e.Borrowed(desc)}};
  }
  dnnl::eltwise_forward run;
  memory src, dst;
  Arguments arguments;
};

namespace {

// What `map` has at `key`, made of `arguments` when it has nothing yet.
template <typename Map, typename... Args>
auto& MadeOnce(Map& map, const typename Map::key_type& key, const Args&... arguments) {
  auto& made = map[key];
  if (made == nullptr) made = std::make_unique<typename Map::mapped_type::element_type>(arguments...);
  return *made;
}

}  // namespace

OneDnn::OneDnn() : engine_(std::make_unique<Engine>()) {}
OneDnn::~OneDnn() = default;

// A primitive works with the threads that there were when it was made.
void OneDnn::FitTeam() {
  if (std::exchange(threads_, omp_get_max_threads()) == omp_get_max_threads()) return;
  forward_.clear();
  backward_data_.clear();
  backward_weights_.clear();
  eltwise_.clear();
}

void OneDnn::Conv(const ConvShape& shape, const float* x, const float* weight, const float* bias,
                  const std::optional<ActivationShape>& after, float* out) {
  FitTeam();
  const bool has_bias = bias != nullptr;
  MadeOnce(forward_, {shape, has_bias, after}, *engine_, shape, has_bias, after).Run(x, weight, bias, out);
  engine_->stream.wait();
}

void OneDnn::ConvBackward(const ConvShape& shape, const float* x, const float* weight, const float* grad,
                          float* grad_x, float* grad_weight, float* grad_bias) {
  FitTeam();
  const bool has_bias = grad_bias != nullptr;
  if (grad_weight != nullptr) {
    MadeOnce(backward_weights_, {shape, has_bias}, *engine_, shape, has_bias)
        .Run(x, grad, grad_weight, grad_bias);
  }
  if (grad_x != nullptr) MadeOnce(backward_data_, shape, *engine_, shape).Run(weight, grad, grad_x);
  engine_->stream.wait();
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

void OneDnn::Run(int algorithm, const float* x, float* out, int64_t n) {
  FitTeam();
  Eltwise& eltwise = MadeOnce(eltwise_, {algorithm, n}, *engine_, static_cast<dnnl::algorithm>(algorithm), n);
  engine_->Point(eltwise.src, x);
  engine_->Point(eltwise.dst, out);
  eltwise.arguments.Execute(eltwise.run, engine_->stream);
  engine_->stream.wait();
}

void OneDnn::Tanh(const float* x, float* out, int64_t n) {
  Run(static_cast<int>(dnnl::algorithm::eltwise_tanh), x, out, n);
}
void OneDnn::Sigmoid(const float* x, float* out, int64_t n) {
  Run(static_cast<int>(dnnl::algorithm::eltwise_logistic), x, out, n);
}

}  // namespace sluice::cpu

#include "tensor/cpu/onednn_product.h"

namespace sluice::cpu {

using dnnl::memory;
using Tag = memory::format_tag;

namespace {

// Describes a matrix [rows, columns], which lies in memory as [columns, rows] if `transposed`. It is passed
// to oneDNN as it lies, since the kernels pack it as fast as a reordering would.
memory::desc Matrix(int64_t rows, int64_t columns, bool transposed, memory::data_type type = kFloat) {
  return {{rows, columns}, type, transposed ? Tag::ba : Tag::ab};
}

dnnl::matmul::primitive_desc Describe(const Engine& e, const ProductShape& s) {
  dnnl::primitive_attr attributes;
  if (s.adds) {
    dnnl::post_ops post;
    post.append_sum(1);
    attributes.set_post_ops(post);
  }
  const auto factor = FactorType(s.arithmetic);
  const memory::desc a = Matrix(s.m, s.k, s.transpose_a, factor), b = Matrix(s.k, s.n, s.transpose_b, factor),
                     out = Matrix(s.m, s.n, false);
  using Desc = dnnl::matmul::desc;
  return {s.has_bias ? Desc(a, b, Matrix(1, s.n, false), out) : Desc(a, b, out), attributes, e.engine};
}

}  // namespace

Product::Product(const Engine& e, const ProductShape& s)
    : e_(e),
      pd_(Describe(e, s)),
      run_(pd_),
      a_(e, Matrix(s.m, s.k, s.transpose_a), pd_.src_desc()),
      b_(e, Matrix(s.k, s.n, s.transpose_b), pd_.weights_desc()),
      out_(e.Unbound(pd_.dst_desc())) {
  arguments_ = {{DNNL_ARG_SRC, a_.chosen()}, {DNNL_ARG_WEIGHTS, b_.chosen()}, {DNNL_ARG_DST, out_}};
  if (!s.has_bias) return;
  bias_ = e.Unbound(pd_.bias_desc());
  arguments_.Add(DNNL_ARG_BIAS, bias_);
}

void Product::Run(const float* a, const float* b, const float* bias, float* out) {
  e_.Point(out_, out);
  if (bias != nullptr) e_.Point(bias_, bias);
  a_.Bring(a);
  b_.Bring(b);
  arguments_.Execute(run_, e_.stream);
}

}  // namespace sluice::cpu

#include "tensor/cpu/onednn_product.h"

namespace sluice::cpu {

using dnnl::memory;
using Tag = memory::format_tag;

namespace {

// Rows and columns of what is multiplied, which may lie the other way round.
memory::desc Matrix(int64_t rows, int64_t columns, bool transposed) {
  return {{rows, columns}, kFloat, transposed ? Tag::ba : Tag::ab};
}

dnnl::matmul::primitive_desc Describe(const Engine& e, const ProductShape& s) {
  constexpr auto kFactor = memory::data_type::bf16;
  dnnl::primitive_attr attributes;
  if (s.adds) {
    dnnl::post_ops post;
    post.append_sum(1);
    attributes.set_post_ops(post);
  }
  return {dnnl::matmul::desc({{s.m, s.k}, kFactor, Tag::any}, {{s.k, s.n}, kFactor, Tag::any},
                             {{s.m, s.n}, kFloat, Tag::ab}),
          attributes, e.engine};
}

}  // namespace

Product::Product(const Engine& e, const ProductShape& s)
    : e_(e),
      pd_(Describe(e, s)),
      run_(pd_),
      a_(e, Matrix(s.m, s.k, s.transpose_a), pd_.src_desc()),
      b_(e, Matrix(s.k, s.n, s.transpose_b), pd_.weights_desc()),
      out_(e.Borrowed(pd_.dst_desc())) {
  arguments_ = {{DNNL_ARG_SRC, a_.chosen()}, {DNNL_ARG_WEIGHTS, b_.chosen()}, {DNNL_ARG_DST, out_}};
}

void Product::Run(const float* a, const float* b, float* out) {
  e_.Point(out_, out);
  a_.Bring(a);
  b_.Bring(b);
  arguments_.Execute(run_, e_.stream);
}

}  // namespace sluice::cpu

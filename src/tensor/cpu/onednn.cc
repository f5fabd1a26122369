// Primitives of oneDNN for CpuKernels: each is made once for its shape and kept in a map. All methods run on
// the stream's thread, and return when the result is complete. Invariants: the primitives in the maps were
// made for the present number of threads (FitTeam), and memory for a primitive's code was found to be
// available before the primitive is made, since oneDNN does not check that.
#include "tensor/cpu/onednn.h"

#include <omp.h>

#include <cstring>

#include "base/limits.h"
#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/cpu/elementwise.h"
#include "tensor/cpu/onednn_conv.h"
#include "tensor/cpu/onednn_product.h"

namespace sluice::cpu {

using dnnl::memory;

struct OneDnn::Eltwise {
  Eltwise(const Engine& e, dnnl::algorithm algorithm, int64_t n) {
    const memory::desc desc({n}, kFloat, memory::format_tag::x);
    using F = dnnl::eltwise_forward;
    run = F(F::primitive_desc(F::desc(dnnl::prop_kind::forward_inference, algorithm, desc, 0, 0), e.engine));
    arguments = {{DNNL_ARG_SRC, src = e.Unbound(desc)}, {DNNL_ARG_DST, dst = e.Unbound(desc)}};
  }
  dnnl::eltwise_forward run;
  memory src, dst;
  Arguments arguments;
};

namespace {

// The most primitives in one map. When a map is full it is cleared, for programs that always
// bring new shapes, such as texts of every length.
constexpr size_t kMostPrimitives = 256;

// More than the generated code of one primitive takes, its parts included, and what other threads may map
// while it is generated. oneDNN does not check whether it got that memory.
constexpr size_t kMostCode = size_t{96} << 20;

// Returns the element of `map` at `key`; makes it from `arguments` if there is none.
template <typename Map, typename... Args>
auto& FindOrMake(Map& map, const typename Map::key_type& key, const Args&... arguments) {
  auto found = map.find(key);
  if (found == map.end()) {
    if (map.size() == kMostPrimitives) map.clear();
    ReserveMemory(kMostCode, "a kernel's code");
    found = map.emplace(key, std::make_unique<typename Map::mapped_type::element_type>(arguments...)).first;
  }
  return *found->second;
}

// Computes a product with k = 0, which is zero (plus the bias, and `out` itself if it adds).
void EmptyProduct(const ProductShape& s, const float* bias, float* out) {
  if (!s.adds) std::memset(out, 0, static_cast<size_t>(s.m * s.n) * sizeof(float));
  for (int64_t row = 0; row < s.m && bias != nullptr; ++row, out += s.n) Combine(1, out, 1, bias, out, s.n);
}

bool Has(dnnl::cpu_isa features) {
  const auto wanted = static_cast<int>(features);
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

}  // namespace

OneDnn::OneDnn() : engine_(std::make_unique<Engine>()) {}
OneDnn::~OneDnn() = default;

bool OneDnn::MultipliesBFloat16() {
  return Has(dnnl::cpu_isa::avx512_core);
}

bool OneDnn::MultipliesBFloat16Fast() {
  if (Has(dnnl::cpu_isa::avx512_core_amx)) return true;
  return Has(dnnl::cpu_isa::avx512_core_bf16) && __builtin_cpu_is("amdfam19h") != 0;
}

// Drops all primitives if the number of threads has changed: a primitive divides its work among
// as many threads as there were when it was made.
void OneDnn::FitTeam() {
  if (std::exchange(threads_, omp_get_max_threads()) == omp_get_max_threads()) return;
  forward_.clear();
  backward_data_.clear();
  backward_weights_.clear();
  products_.clear();
  eltwise_.clear();
}

void OneDnn::Convolution(const ConvolutionArgs& args) {
  FitTeam();
  const bool has_bias = args.bias != nullptr;
  FindOrMake(forward_, {args.shape, has_bias, args.after}, *engine_, args.shape, has_bias, args.after)
      .Run(args.x, args.weight, args.bias, args.out);
  engine_->stream.wait();
}

void OneDnn::ConvolutionBackward(const ConvolutionBackwardArgs& args) {
  FitTeam();
  const bool has_bias = args.grad_bias != nullptr;
  if (args.grad_weight != nullptr) {
    FindOrMake(backward_weights_, {args.shape, has_bias}, *engine_, args.shape, has_bias)
        .Run(args.x, args.grad, args.grad_weight, args.grad_bias);
  }
  if (args.grad_x != nullptr)
    FindOrMake(backward_data_, args.shape, *engine_, args.shape).Run(args.weight, args.grad, args.grad_x);
  engine_->stream.wait();
}

void OneDnn::Multiply(const ProductShape& s, const float* a, const float* b, const float* bias, float* out) {
  if (s.m == 0 || s.n == 0) return;
  if (s.k == 0) return EmptyProduct(s, bias, out);  // oneDNN rejects this shape
  FitTeam();
  FindOrMake(products_, s, *engine_, s).Run(a, b, bias, out);
  engine_->stream.wait();
}

void OneDnn::Run(int algorithm, const float* x, float* out, int64_t n) {
  FitTeam();
  Eltwise& eltwise =
      FindOrMake(eltwise_, {algorithm, n}, *engine_, static_cast<dnnl::algorithm>(algorithm), n);
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

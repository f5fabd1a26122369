// Products: products of row-major matrices by cuBLASLt, whose matrices are column-major, so that a row-major
// matrix is its transpose: out^T = op(b)^T op(a)^T. The library's A is our b, its B our a, its bias of each
// row of out^T our bias of each column. Products owns the library's handle and at most kMostPlans plans.
// Invariant: a plan runs only for the shape for which it was made, on arrays of the alignment for which its
// algorithm was chosen. CudaKernels calls it, for dense and recurrent layers, in work on the stream, on the
// issuing thread.
#include "tensor/cuda/product.h"

#include <bit>
#include <utility>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::cuda {
namespace {

constexpr size_t kWorkspace = size_t{32} << 20;  // what NVIDIA recommends for cards of the class 90
constexpr size_t kMostPlans = 1024;              // batches of sequences have many shapes

void Require(const CublasLt& library, cublasStatus_t status, std::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::kResourceExhausted : ErrorCode::kUnavailable,
              StrCat(call, " failed: ", library.StatusString(status)));
}

// Strict float32 adds up float32 products; the others may round the factors.
cublasComputeType_t TypeOf(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kFloat32:
      return CUBLAS_COMPUTE_32F;
    case Arithmetic::kTFloat32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case Arithmetic::kBFloat16:
      break;
  }
  return CUBLAS_COMPUTE_32F_FAST_16BF;
}

// Owns a handle that cuBLASLt's functions make and destroy.
template <typename Handle>
class Owned {
 public:
  using Destroy = cublasStatus_t (*)(Handle);
  explicit Owned(Destroy destroy) : destroy_(destroy) {}
  ~Owned() {
    if (handle_ != nullptr) static_cast<void>(destroy_(handle_));
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Handle get() const { return handle_; }
  Handle* out() { return &handle_; }

 private:
  const Destroy destroy_;
  Handle handle_ = nullptr;
};

using Layout = Owned<cublasLtMatrixLayout_t>;

void MakeLayout(const CublasLt& library, int64_t rows, int64_t columns, Layout& layout) {
  Require(library,
          library.LayoutCreate(layout.out(), CUDA_R_32F, static_cast<uint64_t>(rows),
                               static_cast<uint64_t>(columns), rows),
          "cublasLtMatrixLayoutCreate");
}

uint32_t AlignmentOf(std::initializer_list<const void*> arrays) {
  constexpr uintptr_t kAligned = 16;
  uintptr_t all = kAligned;
  for (const void* array : arrays) all |= reinterpret_cast<uintptr_t>(array);
  return static_cast<uint32_t>(all & ~(all - 1));  // the lowest bit that is set
}

}  // namespace

class Products::Plan {
 public:
  Plan(const CublasLt& library, cublasLtHandle_t handle, const Key& key)
      : library_(library),
        description_(library.DescDestroy),
        a_(library.LayoutDestroy),
        b_(library.LayoutDestroy),
        out_(library.LayoutDestroy) {
    const ProductShape& s = key.shape;
    Describe(s);
    s.transpose_b ? MakeLayout(library, s.k, s.n, a_) : MakeLayout(library, s.n, s.k, a_);
    s.transpose_a ? MakeLayout(library, s.m, s.k, b_) : MakeLayout(library, s.k, s.m, b_);
    MakeLayout(library, s.n, s.m, out_);
    Choose(handle, key);
  }

  void Run(cublasLtHandle_t handle, const ProductShape& s, const float* a, const float* b, const float* bias,
           float* out, Workspace& workspace, cudaStream_t stream) {
    const float one = 1, beta = s.adds ? 1 : 0;
    if (s.has_bias) Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    auto* const memory = workspace.Take<std::byte>(kWorkspace);
    Require(library_,
            library_.Matmul(handle, description_.get(), &one, b, a_.get(), a, b_.get(), &beta, out,
                            out_.get(), out, out_.get(), &algorithm_, memory, kWorkspace, stream),
            "cublasLtMatmul");
  }

 private:
  template <typename T>
  void Set(cublasLtMatmulDescAttributes_t name, const T& value) {
    Require(library_, library_.DescSet(description_.get(), name, &value, sizeof value),
            "cublasLtMatmulDescSetAttribute");
  }

  void Describe(const ProductShape& s) {
    const cublasOperation_t of_a = s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                            of_b = s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    Require(library_, library_.DescCreate(description_.out(), TypeOf(s.arithmetic), CUDA_R_32F),
            "cublasLtMatmulDescCreate");
    Set(CUBLASLT_MATMUL_DESC_TRANSA, of_a);
    Set(CUBLASLT_MATMUL_DESC_TRANSB, of_b);
    if (s.has_bias) Set(CUBLASLT_MATMUL_DESC_EPILOGUE, cublasLtEpilogue_t{CUBLASLT_EPILOGUE_BIAS});
  }

  // Chooses the algorithm that cuBLASLt expects to be the fastest.
  void Choose(cublasLtHandle_t handle, const Key& key) {
    Owned<cublasLtMatmulPreference_t> preference(library_.PreferenceDestroy);
    Require(library_, library_.PreferenceCreate(preference.out()), "cublasLtMatmulPreferenceCreate");
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
      Require(library_, library_.PreferenceSet(preference.get(), name, &value, sizeof value),
              "cublasLtMatmulPreferenceSetAttribute");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    for (const auto name :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      set(name, key.alignment);
    cublasLtMatmulHeuristicResult_t result = {};
    int count = 0;
    Require(library_,
            library_.GetHeuristic(handle, description_.get(), a_.get(), b_.get(), out_.get(), out_.get(),
                                  preference.get(), 1, &result, &count),
            "cublasLtMatmulAlgoGetHeuristic");
    Require(library_, result.state, "cublasLtMatmulAlgoGetHeuristic");
    algorithm_ = result.algo;
  }

  const CublasLt& library_;
  Owned<cublasLtMatmulDesc_t> description_;
  Layout a_, b_, out_;  // cuBLASLt's A and B
  cublasLtMatmulAlgo_t algorithm_ = {};
};

Products::Products(cudaStream_t stream, Workspace& workspace)
    : stream_(stream), workspace_(workspace), library_(LoadCublasLt()) {
  Require(*library_, library_->Create(&handle_), "cublasLtCreate");
}

Products::~Products() {
  plans_.clear();
  static_cast<void>(library_->Destroy(handle_));
}

Products::Plan& Products::PlanOf(const Key& key) {
  if (const auto made = plans_.find(key); made != plans_.end()) return *made->second;
  if (plans_.size() >= kMostPlans) plans_.clear();
  return *plans_.emplace(key, std::make_unique<Plan>(*library_, handle_, key)).first->second;
}

void Products::Multiply(const ProductShape& shape, const float* a, const float* b, const float* bias,
                        float* out) {
  PlanOf({shape, AlignmentOf({a, b, bias, out})}).Run(handle_, shape, a, b, bias, out, workspace_, stream_);
}

}  // namespace sluice::cuda

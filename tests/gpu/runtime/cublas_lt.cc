// cuBLASLt on a test machine: what products use of it, as loops on the streams' threads. The opaque structs
// of the library's header hold what the functions were given. Extents that do not fit each other are
// refused, as are arrays that are less aligned than the algorithm was chosen for.
#include "tensor/cuda/cublas_lt.h"

#include <bit>
#include <cstring>

#include "gpu/runtime/rounding.h"
#include "gpu/runtime/stream.h"

namespace sluice::cuda {
namespace {

// --- The fields of the opaque structs ---

enum DescField : size_t { kCompute, kTransA, kTransB, kEpilogue, kBias };
enum LayoutField : size_t { kRows, kColumns, kStep };
enum PreferenceField : size_t { kMostWorkspace, kAlignment };
enum AlgorithmField : size_t { kWorkspace, kLeastAlignment };

cublasStatus_t Create(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t Destroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t DescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *desc = new cublasLtMatmulDescOpaque_t{};
  (*desc)->data[kCompute] = static_cast<uint64_t>(compute);
  (*desc)->data[kEpilogue] = CUBLASLT_EPILOGUE_DEFAULT;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t DescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t DescSet(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, const void* value,
                       size_t size) {
  const auto set = [&](size_t field, size_t expected) {
    if (size != expected) return CUBLAS_STATUS_INVALID_VALUE;
    desc->data[field] = 0;
    std::memcpy(&desc->data[field], value, size);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(kTransA, sizeof(cublasOperation_t));
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(kTransB, sizeof(cublasOperation_t));
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(kEpilogue, sizeof(cublasLtEpilogue_t));
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(kBias, sizeof(void*));
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t LayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                            uint64_t columns, int64_t step) {
  if (type != CUDA_R_32F || step < static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new cublasLtMatrixLayoutOpaque_t{};
  (*layout)->data[kRows] = rows;
  (*layout)->data[kColumns] = columns;
  (*layout)->data[kStep] = static_cast<uint64_t>(step);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t LayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t PreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t{};
  (*preference)->data[kAlignment] = 256;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t PreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t PreferenceSet(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name,
                             const void* value, size_t size) {
  const bool workspace = name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
  if (size != (workspace ? sizeof(size_t) : sizeof(uint32_t))) return CUBLAS_STATUS_INVALID_VALUE;
  uint64_t number = 0;
  std::memcpy(&number, value, size);
  uint64_t& alignment = preference->data[kAlignment];
  if (workspace) {
    preference->data[kMostWorkspace] = number;
  } else {
    alignment = number < alignment ? number : alignment;
  }
  return CUBLAS_STATUS_SUCCESS;
}

// --- Products ---

// A column-major matrix, and its transpose if `transposes`.
struct Matrix {
  Matrix(const void* where, cublasLtMatrixLayout_t layout, uint64_t operation)
      : values(static_cast<const float*>(where)),
        transposes(operation == CUBLAS_OP_T),
        rows(layout->data[transposes ? kColumns : kRows]),
        columns(layout->data[transposes ? kRows : kColumns]),
        step(layout->data[kStep]) {}
  const float* values;
  bool transposes;
  uint64_t rows, columns, step;
  float At(uint64_t row, uint64_t column) const {
    return transposes ? values[row * step + column] : values[column * step + row];
  }
};

bool Fit(const Matrix& a, const Matrix& b, const Matrix& out) {
  return a.rows == out.rows && b.columns == out.columns && a.columns == b.rows;
}

cublasStatus_t GetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                            cublasLtMatmulPreference_t preference, int most,
                            cublasLtMatmulHeuristicResult_t* results, int* count) {
  *count = 0;
  const Matrix out(nullptr, d, CUBLAS_OP_N);
  if (c != d || most < 1 || !Fit({nullptr, a, desc->data[kTransA]}, {nullptr, b, desc->data[kTransB]}, out))
    return CUBLAS_STATUS_INVALID_VALUE;
  *count = 1;
  results[0] = {};
  results[0].algo.data[kWorkspace] = preference->data[kMostWorkspace];
  results[0].algo.data[kLeastAlignment] = preference->data[kAlignment];
  return CUBLAS_STATUS_SUCCESS;
}

Arithmetic ArithmeticOf(uint64_t compute) {
  if (compute == CUBLAS_COMPUTE_32F_FAST_16BF) return Arithmetic::kBFloat16;
  return compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? Arithmetic::kTFloat32 : Arithmetic::kFloat32;
}

cublasStatus_t Matmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                      cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                      const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                      cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                      size_t workspace_size, cudaStream_t stream) {
  const Matrix left(a, a_layout, desc->data[kTransA]), right(b, b_layout, desc->data[kTransB]);
  const Matrix old(c, d_layout, CUBLAS_OP_N);
  const bool has_bias = desc->data[kEpilogue] == CUBLASLT_EPILOGUE_BIAS;
  const auto* const bias = has_bias ? reinterpret_cast<const float*>(desc->data[kBias]) : nullptr;
  const auto places = reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b) |
                      reinterpret_cast<uintptr_t>(c) | reinterpret_cast<uintptr_t>(d);
  if (!Fit(left, right, old) || *static_cast<const float*>(alpha) != 1 || workspace == nullptr ||
      workspace_size < algorithm->data[kWorkspace] || places % algorithm->data[kLeastAlignment] != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool adds = *static_cast<const float*>(beta) != 0;
  stream->Enqueue([=, out = static_cast<float*>(d), arithmetic = ArithmeticOf(desc->data[kCompute])] {
    for (uint64_t column = 0; column < old.columns; ++column)
      for (uint64_t row = 0; row < old.rows; ++row) {
        double sum = 0;
        for (uint64_t k = 0; k < left.columns; ++k)
          sum += double{emulation::Rounded(left.At(row, k), arithmetic)} *
                 double{emulation::Rounded(right.At(k, column), arithmetic)};
        if (adds) sum += old.At(row, column);
        if (bias != nullptr) sum += bias[row];
        out[column * old.step + row] = static_cast<float>(sum);
      }
  });
  return CUBLAS_STATUS_SUCCESS;
}

const char* StatusString(cublasStatus_t) {
  return "an error of the test machine";
}

}  // namespace

std::shared_ptr<const CublasLt> LoadCublasLt() {
  return std::make_shared<CublasLt>(CublasLt{
      .Create = Create,
      .Destroy = Destroy,
      .DescCreate = DescCreate,
      .DescDestroy = DescDestroy,
      .DescSet = DescSet,
      .LayoutCreate = LayoutCreate,
      .LayoutDestroy = LayoutDestroy,
      .PreferenceCreate = PreferenceCreate,
      .PreferenceDestroy = PreferenceDestroy,
      .PreferenceSet = PreferenceSet,
      .GetHeuristic = GetHeuristic,
      .Matmul = Matmul,
      .StatusString = StatusString,
  });
}

}  // namespace sluice::cuda

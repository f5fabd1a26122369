#include "tensor/cuda/cublas_lt.h"

#include "tensor/cuda/library.h"

namespace sluice::cuda {

std::shared_ptr<const CublasLt> LoadCublasLt() {
  return LoadFunctions<CublasLt>(kCublasLt, [](const Library& from, CublasLt* to) {
    from.Find("cublasLtCreate", &to->Create);
    from.Find("cublasLtDestroy", &to->Destroy);
    from.Find("cublasLtMatmulDescCreate", &to->DescCreate);
    from.Find("cublasLtMatmulDescDestroy", &to->DescDestroy);
    from.Find("cublasLtMatmulDescSetAttribute", &to->DescSet);
    from.Find("cublasLtMatrixLayoutCreate", &to->LayoutCreate);
    from.Find("cublasLtMatrixLayoutDestroy", &to->LayoutDestroy);
    from.Find("cublasLtMatmulPreferenceCreate", &to->PreferenceCreate);
    from.Find("cublasLtMatmulPreferenceDestroy", &to->PreferenceDestroy);
    from.Find("cublasLtMatmulPreferenceSetAttribute", &to->PreferenceSet);
    from.Find("cublasLtMatmulAlgoGetHeuristic", &to->GetHeuristic);
    from.Find("cublasLtMatmul", &to->Matmul);
    from.Find("cublasLtGetStatusString", &to->StatusString);
  });
}

}  // namespace sluice::cuda

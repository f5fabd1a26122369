#include "tensor/cuda/cublas_lt.h"

#include <utility>

#include "tensor/cuda/library.h"

namespace sluice::cuda {

std::shared_ptr<const CublasLt> LoadCublasLt() {
  struct Loaded {
    Library library{"libcublasLt.so.13"};
    CublasLt functions{};
  };
  auto loaded = std::make_shared<Loaded>();
  const Library& from = loaded->library;
  CublasLt& to = loaded->functions;
  from.Find("cublasLtCreate", &to.Create);
  from.Find("cublasLtDestroy", &to.Destroy);
  from.Find("cublasLtMatmulDescCreate", &to.DescCreate);
  from.Find("cublasLtMatmulDescDestroy", &to.DescDestroy);
  from.Find("cublasLtMatmulDescSetAttribute", &to.DescSet);
  from.Find("cublasLtMatrixLayoutCreate", &to.LayoutCreate);
  from.Find("cublasLtMatrixLayoutDestroy", &to.LayoutDestroy);
  from.Find("cublasLtMatmulPreferenceCreate", &to.PreferenceCreate);
  from.Find("cublasLtMatmulPreferenceDestroy", &to.PreferenceDestroy);
  from.Find("cublasLtMatmulPreferenceSetAttribute", &to.PreferenceSet);
  from.Find("cublasLtMatmulAlgoGetHeuristic", &to.GetHeuristic);
  from.Find("cublasLtMatmul", &to.Matmul);
  from.Find("cublasLtGetStatusString", &to.StatusString);
  return {std::move(loaded), &to};
}

}  // namespace sluice::cuda

// The functions of cuBLASLt that products use. https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string_view>

namespace sluice::cuda {

struct CublasLt {
  decltype(&cublasLtCreate) Create;
  decltype(&cublasLtDestroy) Destroy;
  decltype(&cublasLtMatmulDescCreate) DescCreate;
  decltype(&cublasLtMatmulDescDestroy) DescDestroy;
  decltype(&cublasLtMatmulDescSetAttribute) DescSet;
  decltype(&cublasLtMatrixLayoutCreate) LayoutCreate;
  decltype(&cublasLtMatrixLayoutDestroy) LayoutDestroy;
  decltype(&cublasLtMatmulPreferenceCreate) PreferenceCreate;
  decltype(&cublasLtMatmulPreferenceDestroy) PreferenceDestroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) PreferenceSet;
  decltype(&cublasLtMatmulAlgoGetHeuristic) GetHeuristic;
  decltype(&cublasLtMatmul) Matmul;
  decltype(&cublasLtGetStatusString) StatusString;
};

// Loads the library, which stays loaded as long as the functions are held. Throws Error(kUnavailable) where
// it is missing.
std::shared_ptr<const CublasLt> LoadCublasLt();

}  // namespace sluice::cuda

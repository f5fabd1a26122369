// Products of matrices by cuBLASLt.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "tensor/cuda/cublas_lt.h"
#include "tensor/cuda/workspace.h"
#include "tensor/product_shape.h"

namespace sluice::cuda {

// Makes what cuBLASLt needs for a shape once and keeps it. Used by one thread, on which the card is the
// current one.
class Products {
 public:
  // Throws Error(kUnavailable) where cuBLASLt is missing or cannot use the card.
  Products(cudaStream_t stream, Workspace& workspace);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // No extent is 0.
  void Multiply(const ProductShape& shape, const float* a, const float* b, const float* bias, float* out);

 private:
  // An algorithm is chosen for arrays that begin at multiples of so many bytes.
  struct Key {
    ProductShape shape;
    uint32_t alignment = 0;
    auto operator<=>(const Key&) const = default;
  };
  class Plan;
  Plan& PlanOf(const Key& key);

  const cudaStream_t stream_;
  Workspace& workspace_;
  const std::shared_ptr<const CublasLt> library_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace sluice::cuda

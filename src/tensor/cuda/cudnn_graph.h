// Execution plans from cuDNN's graph API, for convolutions.
// https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html
//
// A plan is made for a description of a card and not for a card: tests make all plans of our models where
// there is none (tests/gpu/plans_test.cc).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/cuda/convolutions.h"
#include "tensor/cuda/cudnn_library.h"

namespace sluice::cuda {

// Owns a descriptor of cuDNN's. Move-only. Methods throw as Require does. `library` must outlive it.
class CudnnDescriptor {
 public:
  CudnnDescriptor(const Cudnn& library, cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;

  const Cudnn& library() const { return *library_; }
  cudnnBackendDescriptor_t get() const { return descriptor_; }

  void Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
           const void* values);
  void Set(cudnnBackendAttributeName_t name, std::span<const int64_t> values);
  void Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  void Set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  // Returns the values, at most `most`.
  std::vector<int64_t> Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t width,
                           int64_t most) const;
  void Finalize();
  // The same, but returns false where cuDNN does not support what was asked for.
  bool TryFinalize();

 private:
  const Cudnn* library_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

// Returns the description of a card that cuDNN has written as JSON.
CudnnDescriptor CardFromJson(const Cudnn& library, const std::string& json);
// Returns the description of the card of a handle, and its JSON.
CudnnDescriptor CardOf(const Cudnn& library, cudnnHandle_t handle);
std::string JsonOf(const CudnnDescriptor& card);

// The numbers of the tensors in a plan's variable pack; of their gradients too.
enum class ConvolutionTensor : int64_t { kX = 1, kWeight = 2, kOut = 3 };

struct ConvolutionPlan {
  CudnnDescriptor plan;
  int64_t engine = 0;     // cuDNN's number
  int64_t workspace = 0;  // bytes
};

// Returns plans that give the same bits in every run, need at most `most_workspace` bytes and compute as the
// problem says: with Arithmetic::kFloat32 none uses tensor cores or rounds its inputs; with another they may
// round them to TensorFloat-32, since cuDNN has no engine for factors of bfloat16 and a result of float32.
// The first is what cuDNN expects to be the fastest; there are at most `most`, and none where cuDNN has none.
std::vector<ConvolutionPlan> FindPlans(const CudnnDescriptor& card, const ConvolutionProblem& problem,
                                       int64_t most_workspace, size_t most);

}  // namespace sluice::cuda

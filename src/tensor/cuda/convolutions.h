// Convolutions by cuDNN.
#pragma once

#include <driver_types.h>

#include <compare>
#include <cstdint>
#include <memory>

#include "tensor/cuda/workspace.h"
#include "tensor/kernels/convolution.h"

namespace sluice::cuda {

enum class ConvolutionPass : uint8_t { kForward, kGradX, kGradWeight };

// All arrays are float32. Images lie in `layout`, weights always [o, i, kh, kw]. No extent is 0.
struct ConvolutionProblem {
  ConvShape shape;
  ConvolutionPass pass = ConvolutionPass::kForward;
  ImageLayout layout = ImageLayout::kRowMajor;
  bool aligned = true;  // all arrays begin at multiples of 16 bytes; more engines are found then
  auto operator<=>(const ConvolutionProblem&) const = default;
};

// The arrays of a convolution, or their gradients. A pass writes one of them: out, x or weight.
struct ConvolutionArrays {
  const float *x, *weight, *out;
};

// Makes a plan for a problem once and keeps it. Used by one thread, on which the card is the current one.
class Convolutions {
 public:
  // Throws Error(kUnavailable) where cuDNN is missing or cannot use the card.
  Convolutions(cudaStream_t stream, Workspace& workspace);
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;

  // Throws Error(kUnimplemented) for a problem that cuDNN has no plan for.
  void Run(const ConvolutionProblem& problem, const ConvolutionArrays& arrays);

 private:
  class State;
  const std::unique_ptr<State> state_;
};

}  // namespace sluice::cuda

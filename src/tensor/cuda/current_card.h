// Which card the calls of a thread are for.
#pragma once

#include <cuda_runtime_api.h>

#include "tensor/cuda/error.h"

namespace sluice::cuda {

// Makes a card the calling thread's current one, and the one before it at the end. Programs may use CUDA
// themselves, on the threads that call the library.
class CurrentCard {
 public:
  explicit CurrentCard(int card) {
    Require(cudaGetDevice(&before_), "cudaGetDevice");
    Require(cudaSetDevice(card), "cudaSetDevice");
  }
  ~CurrentCard() { static_cast<void>(cudaSetDevice(before_)); }
  CurrentCard(const CurrentCard&) = delete;
  CurrentCard& operator=(const CurrentCard&) = delete;

 private:
  int before_ = 0;
};

}  // namespace sluice::cuda

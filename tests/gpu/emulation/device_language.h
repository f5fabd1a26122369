// What CUDA's compiler adds to C++, for kernels that are compiled for the host: where a thread is, shared
// memory, barriers, shuffles, atomics. CUDA's own headers define the types and make __global__ and
// __device__ nothing. https://docs.nvidia.com/cuda/cuda-c-programming-guide/#c-language-extensions
//
// Differences to a card: blocks run one after another, and memory is as strongly ordered as the host's.
// Masks of warps must be whole. A missing barrier is a race that TSan reports.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <source_location>

#include "gpu/emulation/grid.h"

// A grid runs on one thread of the host, and other grids on others.
#undef __shared__
#define __shared__ static thread_local

#define threadIdx (::sluice::emulation::ThreadIndex())
#define blockIdx (::sluice::emulation::BlockIndex())
#define blockDim (::sluice::emulation::BlockSize())
#define gridDim (::sluice::emulation::GridSize())

inline void __syncthreads(std::source_location where = std::source_location::current()) {
  sluice::emulation::SyncBlock(where);
}
inline void __syncwarp(unsigned mask = 0xffffffff,
                       std::source_location where = std::source_location::current()) {
  sluice::emulation::SyncWarp(mask, where);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane,
              std::source_location where = std::source_location::current()) {
  return sluice::emulation::Exchange(mask, value, lane, where);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned by,
                   std::source_location where = std::source_location::current()) {
  const int lane = sluice::emulation::Lane();
  return sluice::emulation::Exchange(mask, value, lane + static_cast<int>(by), where);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits,
                  std::source_location where = std::source_location::current()) {
  return sluice::emulation::Exchange(mask, value, sluice::emulation::Lane() ^ bits, where);
}

template <typename T>
T atomicAdd(T* place, T value) {
  return std::atomic_ref<T>(*place).fetch_add(value, std::memory_order_relaxed);
}
template <typename T>
T atomicCAS(T* place, T expected, T desired) {
  std::atomic_ref<T>(*place).compare_exchange_strong(expected, desired, std::memory_order_relaxed);
  return expected;
}

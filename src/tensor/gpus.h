// Which GPUs this machine has, and that gpu(i) is none of them. The twins cuda/ and no_cuda/ look.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice {

struct GpuInfo {
  std::string name;
  uint64_t memory_bytes = 0;
  std::string ToString() const;  // "NVIDIA H200 (139 GiB)"
};
using Gpus = Result<std::vector<GpuInfo>>;

// Those that the CUDA driver shows this process, in its order; at least one. kUnimplemented in builds without
// CUDA; kUnavailable, with the driver's words, where there is no GPU or no driver that works.
Gpus FindGpus();

// What a program that asks for gpu(id) is told: kUnimplemented, whatever was found. Nothing that could be
// installed would help, so nothing is advised but CPUs.
Failure GpuUnavailable(int id, const Gpus& found);

}  // namespace sluice

// Finds the GPUs of this machine, for the error that says that gpu(i) cannot be used in this
// version. FindGpus is implemented in cuda/ and no_cuda/.
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

// Returns the GPUs that the CUDA driver shows this process, at least one, in the driver's order.
// Fails with kUnimplemented in builds without CUDA, and with kUnavailable and the driver's
// message where no GPU or no working driver is found.
Gpus FindGpus();

// Returns the error for a program that asks for gpu(id): kUnimplemented, whatever `found` is. Its message
// advises cpu contexts only, since nothing that could be installed would help.
Failure GpuUnavailable(int id, const Gpus& found);

}  // namespace sluice

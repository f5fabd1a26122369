// Finds the GPUs of this machine, and the libraries that they need. FindGpus and FindGpuLibraries are
// implemented in cuda/ and no_cuda/.
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

// A library of NVIDIA's. It is loaded when a GPU first needs it.
struct GpuLibrary {
  std::string name;             // "cuDNN"
  Result<std::string> version;  // "9.19.0"; a failure says why it cannot be loaded, and what to do
};
// Loads each library that computing on GPUs needs, or may need, and asks for its version. Returns none in
// builds without CUDA.
std::vector<GpuLibrary> FindGpuLibraries();

// Returns the error for a program that asks for gpu(id), which is not among `found`: kInvalidArgument where
// there are others, else that of `found`. Its message says what the machine has and what to do.
Failure GpuUnavailable(int id, const Gpus& found);

}  // namespace sluice

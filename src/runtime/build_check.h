// What `--check-build` prints: what this build of Sluice has, and what this machine has. Schedulers and
// servers have no tensors, so nothing of src/tensor is included here; other programs add RowsOfGpus
// (gpu_check.h).
#pragma once

#include <string>
#include <vector>

namespace sluice::runtime {

struct CheckRow {
  std::string name, text;
};
using CheckRows = std::vector<CheckRow>;

// Returns what the build has: the compiler, CUDA and NCCL as CMake found them, the types of stores.
CheckRows RowsOfBuild();
// Whether the build has the store type nccl.
bool BuildHasNccl();
// Returns what this process may use of the machine, without its GPUs.
CheckRows RowsOfMachine();

// Returns the whole report, which ends with a newline, in lines of at most 80 columns.
std::string CheckReport(const CheckRows& build, const CheckRows& machine);

}  // namespace sluice::runtime

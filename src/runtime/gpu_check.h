// The GPUs in what `--check-build` prints.
#pragma once

#include <vector>

#include "runtime/build_check.h"
#include "tensor/gpus.h"

namespace sluice::runtime {

// Returns a row for the GPUs, or why there are none, and one for each library that GPUs need.
CheckRows RowsOfGpus(const Gpus& found, const std::vector<GpuLibrary>& libraries);

}  // namespace sluice::runtime

// How emulated kernels come to the streams of a test machine.
#pragma once

#include <driver_types.h>

#include <functional>

namespace sluice::emulation {

// Enqueues a grid, as cudaLaunchKernel does. `kernel` is called by every thread of every block.
cudaError_t LaunchGrid(cudaStream_t stream, unsigned blocks, unsigned threads, std::function<void()> kernel);

}  // namespace sluice::emulation

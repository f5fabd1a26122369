// SLUICE_HOST_DEVICE before an inline function makes CUDA's compiler build it for the card as well as for the
// host. It is empty for other compilers. Such a function computes with numbers alone: it calls nothing of
// std:: and allocates nothing.
#pragma once

#ifdef __CUDACC__
#define SLUICE_HOST_DEVICE __host__ __device__
#else
#define SLUICE_HOST_DEVICE
#endif

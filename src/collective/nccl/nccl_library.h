// The functions of NCCL. https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html
#pragma once

#include <nccl.h>

#include <memory>

namespace sluice::collective {

struct NcclLibrary {
  decltype(&ncclGetUniqueId) GetUniqueId;
  decltype(&ncclCommInitRankConfig) CommInitRankConfig;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError;
  decltype(&ncclCommFinalize) CommFinalize;
  decltype(&ncclCommDestroy) CommDestroy;
  decltype(&ncclCommAbort) CommAbort;
  decltype(&ncclReduce) Reduce;
  decltype(&ncclBroadcast) Broadcast;
  decltype(&ncclGroupStart) GroupStart;
  decltype(&ncclGroupEnd) GroupEnd;
  decltype(&ncclGetErrorString) GetErrorString;
  decltype(&ncclGetLastError) GetLastError;
};

// Loads the library, which stays loaded as long as the functions are held. Throws Error(kUnavailable) where
// it is missing.
std::shared_ptr<const NcclLibrary> LoadNccl();

}  // namespace sluice::collective

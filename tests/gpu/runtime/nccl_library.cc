// The functions of NCCL that the library calls are the test machine's (nccl.cc).
#include "collective/nccl/nccl_library.h"

namespace sluice::collective {

std::shared_ptr<const NcclLibrary> LoadNccl() {
  return std::make_shared<NcclLibrary>(NcclLibrary{.GetUniqueId = ncclGetUniqueId,
                                                   .CommInitRankConfig = ncclCommInitRankConfig,
                                                   .CommGetAsyncError = ncclCommGetAsyncError,
                                                   .CommFinalize = ncclCommFinalize,
                                                   .CommDestroy = ncclCommDestroy,
                                                   .CommAbort = ncclCommAbort,
                                                   .Reduce = ncclReduce,
                                                   .Broadcast = ncclBroadcast,
                                                   .GroupStart = ncclGroupStart,
                                                   .GroupEnd = ncclGroupEnd,
                                                   .GetErrorString = ncclGetErrorString,
                                                   .GetLastError = ncclGetLastError});
}

}  // namespace sluice::collective

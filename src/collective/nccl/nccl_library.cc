#include "collective/nccl/nccl_library.h"

#include "tensor/cuda/library.h"

namespace sluice::collective {

std::shared_ptr<const NcclLibrary> LoadNccl() {
  return cuda::LoadFunctions<NcclLibrary>(cuda::kNccl, [](const cuda::Library& from, NcclLibrary* to) {
    from.Find("ncclGetUniqueId", &to->GetUniqueId);
    from.Find("ncclCommInitRankConfig", &to->CommInitRankConfig);
    from.Find("ncclCommGetAsyncError", &to->CommGetAsyncError);
    from.Find("ncclCommFinalize", &to->CommFinalize);
    from.Find("ncclCommDestroy", &to->CommDestroy);
    from.Find("ncclCommAbort", &to->CommAbort);
    from.Find("ncclReduce", &to->Reduce);
    from.Find("ncclBroadcast", &to->Broadcast);
    from.Find("ncclGroupStart", &to->GroupStart);
    from.Find("ncclGroupEnd", &to->GroupEnd);
    from.Find("ncclGetErrorString", &to->GetErrorString);
    from.Find("ncclGetLastError", &to->GetLastError);
  });
}

}  // namespace sluice::collective

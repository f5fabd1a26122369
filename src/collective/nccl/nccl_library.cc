#include "collective/nccl/nccl_library.h"

#include <utility>

#include "tensor/cuda/library.h"

namespace sluice::collective {

std::shared_ptr<const NcclLibrary> LoadNccl() {
  struct Loaded {
    cuda::Library library{"libnccl.so.2"};
    NcclLibrary functions{};
  };
  auto loaded = std::make_shared<Loaded>();
  const cuda::Library& from = loaded->library;
  NcclLibrary& to = loaded->functions;
  from.Find("ncclGetUniqueId", &to.GetUniqueId);
  from.Find("ncclCommInitRankConfig", &to.CommInitRankConfig);
  from.Find("ncclCommGetAsyncError", &to.CommGetAsyncError);
  from.Find("ncclCommFinalize", &to.CommFinalize);
  from.Find("ncclCommDestroy", &to.CommDestroy);
  from.Find("ncclCommAbort", &to.CommAbort);
  from.Find("ncclReduce", &to.Reduce);
  from.Find("ncclBroadcast", &to.Broadcast);
  from.Find("ncclGroupStart", &to.GroupStart);
  from.Find("ncclGroupEnd", &to.GroupEnd);
  from.Find("ncclGetErrorString", &to.GetErrorString);
  from.Find("ncclGetLastError", &to.GetLastError);
  return {std::move(loaded), &to};
}

}  // namespace sluice::collective

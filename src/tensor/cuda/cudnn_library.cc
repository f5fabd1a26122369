#include "tensor/cuda/cudnn_library.h"

#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/cuda/library.h"

namespace sluice::cuda {

std::shared_ptr<const Cudnn> LoadCudnn() {
  return LoadFunctions<Cudnn>(kCudnn, [](const Library& from, Cudnn* to) {
    from.Find("cudnnCreate", &to->Create);
    from.Find("cudnnDestroy", &to->Destroy);
    from.Find("cudnnSetStream", &to->SetStream);
    from.Find("cudnnGetErrorString", &to->ErrorString);
    from.Find("cudnnGetLastErrorString", &to->LastErrorString);
    from.Find("cudnnBackendCreateDescriptor", &to->CreateDescriptor);
    from.Find("cudnnBackendDestroyDescriptor", &to->DestroyDescriptor);
    from.Find("cudnnBackendSetAttribute", &to->SetAttribute);
    from.Find("cudnnBackendGetAttribute", &to->GetAttribute);
    from.Find("cudnnBackendFinalize", &to->Finalize);
    from.Find("cudnnBackendExecute", &to->Execute);
  });
}

void Require(const Cudnn& library, cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char message[512] = {};
  library.LastErrorString(message, sizeof(message));
  throw Error(ErrorCode::kUnavailable,
              StrCat(call, " failed: ", library.ErrorString(status), message[0] == '\0' ? "" : ": ",
                     static_cast<const char*>(message)));
}

}  // namespace sluice::cuda

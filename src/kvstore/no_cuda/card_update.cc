// Builds without CUDA have no card, and so no array on one; the counterpart of cuda/card_update.cu.
#include "kvstore/card_update.h"

#include "sluice/error.h"

namespace sluice::kvstore {

void UpdateOnCard(Kernels&, std::span<const CardUpdate>) {
  throw Error(ErrorCode::kUnimplemented, "this build of Sluice has no CUDA");
}

}  // namespace sluice::kvstore

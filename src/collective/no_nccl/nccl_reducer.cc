// MakeNcclReducer in builds without NCCL; the counterpart of nccl/nccl_reducer.cc.
#include "collective/reducer.h"
#include "sluice/error.h"

namespace sluice::collective {

std::unique_ptr<Reducer> MakeNcclReducer(Duration) {
  throw Error(ErrorCode::kUnimplemented,
              "this build of Sluice has no NCCL; use the store type 'device', which sums on GPUs without it, "
              "or build it with -DSLUICE_NCCL=ON (docs/building.md)");
}

}  // namespace sluice::collective

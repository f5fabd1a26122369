// MakeNcclReducer for builds without NCCL; nccl/nccl_reducer.cc, which does not exist yet, will replace it.
#include "collective/reducer.h"
#include "sluice/error.h"

namespace sluice::collective {

std::unique_ptr<Reducer> MakeNcclReducer() {
  throw Error(
      ErrorCode::kUnimplemented,
      "this version of Sluice has no NCCL, which sums arrays on GPUs: all arrays are on CPUs; use the "
      "store types 'device' or 'local'");
}

}  // namespace sluice::collective

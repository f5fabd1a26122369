// The twin of nccl/nccl_reducer.cc in builds without NCCL.
#include "collective/reducer.h"
#include "sluice/error.h"

namespace sluice::collective {

std::unique_ptr<Reducer> MakeNcclReducer() {
  throw Error(ErrorCode::kUnimplemented,
              "this build of Sluice has no NCCL; use the store types 'device' or 'local'");
}

}  // namespace sluice::collective

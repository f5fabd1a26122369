// A check of calls on a Trainer.
#pragma once

#include <cstdint>

#include "base/strings.h"
#include "sluice/error.h"

namespace sluice::internal {

inline void RequirePositive(const char* what, int64_t batch_size) {
  if (batch_size > 0) return;
  throw Error(ErrorCode::kInvalidArgument,
              StrCat(what, ": the batch size is ", batch_size, "; it must be positive"));
}

}  // namespace sluice::internal

// The message of an error, for tests of layers.
#pragma once

#include <functional>
#include <string>

#include "unit/expect_error.h"

namespace sluice::nn {

// Returns what the Error(kInvalidArgument) says that `call` throws.
inline std::string MessageOf(const std::function<void()>& call) {
  return ErrorOf(ErrorCode::kInvalidArgument, call);
}

}  // namespace sluice::nn

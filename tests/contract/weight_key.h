// The key that most contract tests use, and a check for errors.
#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "contract/job.h"
#include "unit/expect_error.h"

namespace sluice::testing {

inline const Key kKey = std::string("weight");
inline const Shape kShape = {2, 3};

// Expects `call` to throw an Error with `code` whose message contains all `texts`.
inline void ExpectError(ErrorCode code, const std::vector<std::string>& texts,
                        const std::function<void()>& call) {
  const std::string message = ErrorOf(code, call);
  for (const std::string& text : texts) EXPECT_NE(message.find(text), std::string::npos) << message;
}

}  // namespace sluice::testing

// The one key of most contract tests.
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

// `call` must throw an error of `code` whose message holds all `texts`.
inline void ExpectError(ErrorCode code, const std::vector<std::string>& texts,
                        const std::function<void()>& call) {
  const std::string message = ErrorOf(code, call);
  for (const std::string& text : texts) EXPECT_NE(message.find(text), std::string::npos) << message;
}

}  // namespace sluice::testing

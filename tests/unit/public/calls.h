// Calls with invalid arguments: each must throw sluice::Error with a message that says what was wrong.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sluice/error.h"

namespace sluice {

struct Call {
  std::string name;
  std::string word;  // part of the expected message: the name of the call or of the argument
  std::function<void()> run;
};

// Expects an error of `code` from each call; without a code, one that blames the caller.
inline void ExpectErrors(const std::vector<Call>& calls, std::optional<ErrorCode> code = std::nullopt) {
  for (const Call& call : calls) {
    SCOPED_TRACE(call.name);
    try {
      call.run();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_TRUE(code ? error.code() == *code
                       : error.code() == ErrorCode::kInvalidArgument ||
                             error.code() == ErrorCode::kFailedPrecondition)
          << ErrorCodeName(error.code()) << ": " << error.what();
      EXPECT_THAT(error.what(), ::testing::HasSubstr(call.word));
    } catch (const std::exception& error) {
      ADD_FAILURE() << "no sluice::Error: " << error.what();
    }
  }
}

}  // namespace sluice

// Checks the error that a call throws.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "sluice/error.h"

namespace sluice {

// Calls `call`, expects it to throw a sluice::Error with `code`, and returns the error's message.
template <typename F>
std::string ErrorOf(ErrorCode code, F&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCodeName(error.code()), ErrorCodeName(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error, where " << ErrorCodeName(code) << " was due";
  return {};
}

}  // namespace sluice

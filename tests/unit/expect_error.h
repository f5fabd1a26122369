// The error that a call must end with.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "sluice/error.h"

namespace sluice {

// The message of the sluice::Error with `code` that `call` throws.
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

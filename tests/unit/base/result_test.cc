#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace sluice {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return Fail(ErrorCode::kInvalidArgument, n, " is odd");
  return n / 2;
}

TEST(Result, HoldsAValueOrTheReason) {
  EXPECT_EQ(Half(8).value(), 4);
  const Result<int> odd = Half(7);
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(odd.failure(), (Failure{ErrorCode::kInvalidArgument, "7 is odd"}));
}

TEST(Result, OrThrowTurnsTheReasonIntoAnError) {
  EXPECT_EQ(Half(2).OrThrow(), 1);
  try {
    (void)Half(3).OrThrow();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
    EXPECT_STREQ(e.what(), "3 is odd");
  }
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  EXPECT_EQ(*std::move(result).value(), 5);
}

TEST(Status, IsOkUnlessItHoldsAFailure) {
  EXPECT_TRUE(Status::Ok().ok());
  const Status bad = Fail(ErrorCode::kNotFound, "no key ", 3);
  EXPECT_FALSE(bad.ok());
  EXPECT_THROW(bad.OrThrow(), Error);
  EXPECT_NO_THROW(Status().OrThrow());
}

TEST(ErrorCode, EveryCodeHasAName) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kCancelled); ++code) {
    EXPECT_NE(ErrorCodeName(static_cast<ErrorCode>(code)), "unknown");
  }
}

}  // namespace
}  // namespace sluice

// What every store checks and keeps the same way.
#include "kvstore/store_common.h"

#include <gmock/gmock.h>

#include "unit/expect_error.h"

namespace sluice::kvstore {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::exception_ptr Boom(const char* why) {
  return std::make_exception_ptr(Error(ErrorCode::kDataLoss, why));
}

TEST(OutstandingOperations, WhatWasNotDoneInTimeIsStillWaitedFor) {
  OutstandingOperations outstanding;
  const Event slow = Event::Make("slow");
  outstanding.Add("push of key a", slow);
  ErrorOf(ErrorCode::kDeadlineExceeded, [&] { outstanding.Wait(1ms); });
  ErrorOf(ErrorCode::kDeadlineExceeded, [&] { outstanding.Wait(1ms); });
  EXPECT_FALSE(outstanding.AllDone());
  slow.Complete();
  outstanding.Wait(1s);
  EXPECT_TRUE(outstanding.AllDone());
}

TEST(OutstandingOperations, OfAllThatIsNotDoneTheOldestIsNamed) {
  OutstandingOperations outstanding;
  const Event done = Event::Make("done"), old = Event::Make("old"), late = Event::Make("late");
  for (const Event& event : {done, old, late}) outstanding.Add("push", event);
  done.Complete();
  EXPECT_THAT(ErrorOf(ErrorCode::kDeadlineExceeded, [&] { outstanding.Wait(1ms); }), HasSubstr("for old"));
  late.Complete();
  EXPECT_THAT(ErrorOf(ErrorCode::kDeadlineExceeded, [&] { outstanding.Wait(1ms); }), HasSubstr("for old"));
  old.Complete();
  outstanding.Wait(1s);
}

TEST(OutstandingOperations, EveryFailureIsThrownOnceBeginningWithItsOperation) {
  OutstandingOperations outstanding;
  const Event a = Event::Make("a"), b = Event::Make("b"), c = Event::Make("c");
  outstanding.Add("push of key a", a);
  outstanding.Add("push of key b", b);
  outstanding.Add("push of key c", c);
  a.Complete(Boom("first"));
  b.Complete(Boom("push of key b, part 0: second"));
  c.Complete();
  EXPECT_EQ(ErrorOf(ErrorCode::kDataLoss, [&] { outstanding.Wait(1s); }), "push of key a: first");
  EXPECT_EQ(ErrorOf(ErrorCode::kDataLoss, [&] { outstanding.Wait(1s); }), "push of key b, part 0: second");
  outstanding.Wait(1s);
  outstanding.Check();
}

// An event is done before its callbacks have run, and a wait may end in between.
TEST(OutstandingOperations, AFailureIsThrownByTheWaitForItsEvent) {
  OutstandingOperations outstanding;
  const Event a = Event::Make("a");
  std::string thrown;
  a.OnDone([&](const std::exception_ptr&) {
    thrown = ErrorOf(ErrorCode::kDataLoss, [&] { outstanding.Wait(1s); });
  });
  outstanding.Add("push of key a", a);  // its callback comes after that one
  a.Complete(Boom("lost"));
  EXPECT_EQ(thrown, "push of key a: lost");
}

TEST(OutstandingOperations, ExpectedFailuresAreForgotten) {
  OutstandingOperations outstanding;
  const Event a = Event::Make("a"), b = Event::Make("b");
  outstanding.Add("pull of key a", a);
  outstanding.Add("push of key b", b);
  a.Complete(std::make_exception_ptr(Error(ErrorCode::kCancelled, "left")));
  b.Complete(Boom("lost"));
  EXPECT_THAT(ErrorOf(ErrorCode::kDataLoss, [&] { outstanding.CheckAllBut(ErrorCode::kCancelled); }),
              HasSubstr("push of key b"));
  outstanding.CheckAllBut(ErrorCode::kCancelled);
}

TEST(OutstandingOperations, WhatIsNoErrorOfOursIsThrownAsOne) {
  OutstandingOperations outstanding;
  const Event a = Event::Make("a");
  outstanding.Add("push of key a", a);
  a.Complete(std::make_exception_ptr(std::runtime_error("boom")));
  EXPECT_EQ(ErrorOf(ErrorCode::kFailedPrecondition, [&] { outstanding.Check(); }), "push of key a: boom");
}

TEST(Names, AreTextThatFilesAndMessagesCarry) {
  RequireName(Key(int64_t{-3}));
  RequireName(Key("gew\xC3\xA4hlt \xE6\x9D\x83"));
  RequireName(Key(std::string(64 << 10, 'a')));
  EXPECT_THAT(ErrorOf(ErrorCode::kInvalidArgument, [] { RequireName(Key("\xE4\xFF")); }),
              HasSubstr("is not UTF-8"));
  EXPECT_THAT(
      ErrorOf(ErrorCode::kInvalidArgument, [] { RequireName(Key(std::string((64 << 10) + 1, 'a'))); }),
      AllOf(HasSubstr("aaa... has 65537 bytes"), HasSubstr("at most 65536")));
}

TEST(Divisors, ArePositiveAndFinite) {
  const auto refused = [](double divisor, DType dtype) {
    return ErrorOf(ErrorCode::kInvalidArgument,
                   [&] { RequireDivisor("Push", Key("w"), dtype, {.divisor = divisor}); });
  };
  RequireDivisor("Push", Key("w"), DType::kFloat16, {.divisor = 0.5});
  RequireDivisor("Push", Key("w"), DType::kInt32, {});
  for (const double bad : {0.0, -1.0, HUGE_VAL, std::nan("")})
    EXPECT_THAT(refused(bad, DType::kFloat32), HasSubstr("Push of key w, float32: the divisor is "));
  EXPECT_THAT(refused(2, DType::kInt32), HasSubstr("whole numbers take 1 only"));
}

}  // namespace
}  // namespace sluice::kvstore

// Tests worker/store/issuer.h: in which order operations reach the client, and what becomes of those whose
// arrays fail.
#include "worker/store/issuer.h"

#include <gmock/gmock.h>

#include "unit/expect_error.h"
#include "unit/tensor/gate.h"
#include "unit/worker/store_fixture.h"

namespace sluice::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class IssuerTest : public ::testing::Test {
 protected:
  // An operation without keys ends when the client gets it.
  static std::shared_ptr<Operation> NewOp() { return NewOperation(HeapAllocator(), OpKind::kPush); }
  // Issues an operation whose name is noted when the client gets it.
  Event Issue(const std::string& name, StoreKey& key, const Events& after = {}) {
    CallBatch calls = issuer_.NewCallBatch(1);
    const Event done = issuer_.Issue(name, key, after, NewOp(), calls);
    done.OnDone([this, name](const std::exception_ptr& error) {
      if (error == nullptr) submitted_.push_back(name);
    });
    return done;
  }

  Event IssueRange(const std::string& name, const Events& after,
                   const std::shared_ptr<CallOnRanges>& ranges) {
    CallBatch calls = issuer_.NewCallBatch(1);
    auto op = NewOp();
    op->keys.push_back({.key = w_.id, .round = 0, .destination = {}});
    const Event done = issuer_.Issue(name, w_, after, std::move(op), calls, ranges);
    done.OnDone([this, name](const std::exception_ptr& error) {
      const std::string why = error == nullptr ? "" : FailureOf(error).message;
      if (why.find("card") == std::string::npos) submitted_.push_back(name);  // the client may refuse it
    });
    return done;
  }

  StoreFixture store_;
  Issuer issuer_{store_.context};
  StoreKey& w_ = store_.AddKey("w", 4, 4);
  StoreKey& b_ = store_.AddKey("b", 4, 4);
  std::vector<std::string> submitted_;
};

TEST_F(IssuerTest, AnOperationWaitsForItsArraysAndForEarlierOnesOnItsKey) {
  Gate gate;
  const Event first = Issue("push w", w_, {gate.event()});
  Issue("pull w", w_);
  Issue("push b", b_);
  store_.loop->RunAll();
  EXPECT_THAT(submitted_, ElementsAre("push b"));
  EXPECT_FALSE(first.Done());
  gate.Open();
  store_.loop->RunAll();
  EXPECT_THAT(submitted_, ElementsAre("push b", "push w", "pull w"));
  EXPECT_TRUE(first.Succeeded());
  EXPECT_TRUE(store_.context.outstanding().AllDone());
}

TEST_F(IssuerTest, AnArrayThatFailsEndsItsOperationAndNotTheNextOne) {
  Gate gate;
  const Event push = Issue("push w", w_, {gate.event()});
  const Event pull = Issue("pull w", w_);
  gate.Fail("the gradient is lost");
  EXPECT_EQ(store_.loop->num_tasks(), 2u) << "a thread that drives the loop would sleep on; and the pull";
  store_.loop->RunAll();
  EXPECT_THAT(submitted_, ElementsAre("pull w"));
  EXPECT_TRUE(pull.Succeeded());
  EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { push.Wait(0s); }), HasSubstr("the gradient is lost"));
  EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { store_.context.outstanding().Check(); }),
              HasSubstr("push w"));
}

// One after the other, in the order of the call, although the data of the last one is there first.
TEST_F(IssuerTest, TheRangesOfACallAreSubmittedInOrder) {
  const auto ranges = issuer_.NewCallOnRanges(OpKind::kPush, w_);
  Gate first, second;
  IssueRange("first", {first.event()}, ranges);
  IssueRange("second", {second.event()}, ranges);
  second.Open();
  store_.loop->RunAll();
  EXPECT_THAT(submitted_, IsEmpty());
  first.Open();
  store_.loop->RunAll();
  EXPECT_THAT(submitted_, ElementsAre("first", "second"));
  EXPECT_TRUE(ranges->begun);
}

TEST_F(IssuerTest, BehindARangeThatFailsNoneIsSubmitted) {
  const auto ranges = issuer_.NewCallOnRanges(OpKind::kPush, w_);
  Gate gate;
  IssueRange("first", {}, ranges);
  const Event lost = IssueRange("second", {gate.event()}, ranges);
  const Event behind = IssueRange("third", {}, ranges);
  gate.Fail("the card is lost");
  EXPECT_EQ(store_.loop->num_tasks(), 4u) << "the first one, the failure of the key, the ends of two";
  Issue("push w", w_);
  store_.loop->RunAll();
  EXPECT_THAT(submitted_, ElementsAre("first", "push w"));
  for (const Event& event : {lost, behind})
    EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { event.Wait(0s); }), HasSubstr("the card is lost"));
}

// No memory for the rest of its operations, say.
TEST_F(IssuerTest, ACallThatEndsHalfwayFailsItsKeyBeforeTheNextOne) {
  const auto ranges = issuer_.NewCallOnRanges(OpKind::kPush, w_);
  Gate gate;
  IssueRange("first", {gate.event()}, ranges);
  Issuer::EndRanges(w_, ranges, std::make_exception_ptr(Error(ErrorCode::kResourceExhausted, "full")));
  Issue("push w", w_);
  store_.loop->RunAll();
  EXPECT_THAT(submitted_, IsEmpty());
  EXPECT_FALSE(ranges->ended.Done());
  gate.Open();
  EXPECT_EQ(store_.loop->num_tasks(), 3u) << "the first one, the failure of the key, the next push";
  store_.loop->RunAll();
  EXPECT_THAT(submitted_, ElementsAre("first", "push w"));
}

TEST_F(IssuerTest, WhatIsNotSubmittedIsKnownUntilItIs) {
  EXPECT_THAT(issuer_.Unsubmitted(), IsEmpty());
  std::vector<Gate> gates(100);
  for (const Gate& gate : gates) Issue("push w", w_, {gate.event()});
  EXPECT_THAT(issuer_.Unsubmitted(), SizeIs(100));
  for (size_t i = 0; i < 40; ++i) gates[i].Open();
  EXPECT_THAT(issuer_.Unsubmitted(), SizeIs(60));
  for (size_t i = 99; i >= 40; --i) gates[i].Open();
  EXPECT_THAT(issuer_.Unsubmitted(), IsEmpty());
}

TEST_F(IssuerTest, TheOperationsOfACallAreSubmittedTogether) {
  CallBatch calls = issuer_.NewCallBatch(2);
  issuer_.Issue("push w", w_, {}, NewOp(), calls);
  issuer_.Issue("push b", b_, {}, NewOp(), calls);
  EXPECT_EQ(store_.loop->num_tasks(), 0u);
  calls.Submit();
  EXPECT_EQ(store_.loop->num_tasks(), 1u);
}

}  // namespace
}  // namespace sluice::worker

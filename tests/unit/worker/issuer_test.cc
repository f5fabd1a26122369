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
  store_.loop->RunAll();
  EXPECT_THAT(submitted_, ElementsAre("pull w"));
  EXPECT_TRUE(pull.Succeeded());
  EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { push.Wait(0s); }), HasSubstr("the gradient is lost"));
  EXPECT_THAT(ErrorOf(ErrorCode::kUnavailable, [&] { store_.context.outstanding().Check(); }),
              HasSubstr("push w"));
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

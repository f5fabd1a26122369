#include "autograd/issue_throttle.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "sluice/autograd.h"
#include "sluice/ndarray.h"
#include "tensor/access.h"
#include "unit/tensor/gate.h"

namespace sluice::autograd {
namespace {

constexpr Duration kForEver = 60s;

TEST(IssueThrottle, APassWaitsForTheOneBeforeIt) {
  Gate gate;
  IssueThrottle throttle(kForEver);
  throttle.Await();
  throttle.Note(gate.event());
  std::atomic<bool> opened = false;
  std::thread opener([&] {
    opened = true;
    gate.Open();
  });
  throttle.Await();
  EXPECT_TRUE(opened);
  opener.join();
}

TEST(IssueThrottle, OfOneStreamTheLastOperationCounts) {
  const Event early = EnqueueOn(cpu(0), "early", {}, [] {});
  Gate gate;
  const Event late = EnqueueOn(cpu(0), "late", std::array{gate.event()}, [] {});
  early.Wait();
  IssueThrottle throttle(kForEver);
  throttle.Await();
  throttle.Note(early);
  throttle.Note(late);
  std::thread opener([&] { gate.Open(); });
  throttle.Await();
  EXPECT_TRUE(late.Done());
  opener.join();
}

TEST(IssueThrottle, WhatNeverEndsHoldsNobodyUpForEver) {
  Gate never, failed;
  IssueThrottle throttle(Duration::zero());
  for (int pass = 0; pass < 5; ++pass) {
    throttle.Await();
    throttle.Note(never.event());
  }
  failed.Fail("of another's making");
  throttle.Note(failed.event());
  throttle.Await();
  EXPECT_NO_THROW(throttle.Await());
}

TEST(IssueThrottle, BackwardKeepsIt) {
  NDArray x = NDArray::Empty({3});
  x.Fill(2);
  AttachGrad(x);
  Gate gate;
  const Event behind = EnqueueOn(cpu(0), "behind the gate", std::array{gate.event()}, [] {});
  const auto step = [&] {
    NDArray y;
    {
      const RecordScope record;
      y = x * x;
    }
    Backward(y);
  };
  step();
  EXPECT_FALSE(behind.Done());
  std::thread opener([&] { gate.Open(); });
  step();
  EXPECT_TRUE(behind.Done());
  opener.join();
}

}  // namespace
}  // namespace sluice::autograd

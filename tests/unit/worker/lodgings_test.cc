#include "worker/pull/lodgings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor/access.h"

namespace sluice::worker {
namespace {

using ::testing::ElementsAre;

struct Lent final : Loan {
  explicit Lent(float of) : Loan(nullptr), value(of) {}
  float value;
};

class LodgingsTest : public ::testing::Test {
 protected:
  // A pull into `array`, which lands at once.
  void Pull(NDArray& array, float value, uint64_t parts) {
    Adopter* const adopter = AdopterOf(array);
    lodgings_.Add(array.storage(), parts);
    auto loan = std::make_shared<Lent>(value);
    last_ = loan;
    const Bytes bytes = std::as_bytes(std::span(&loan->value, 1));
    for (const Event& use : PendingUses(array)) use.Wait();
    adopter->Adopt(Frame::Borrowed(bytes, std::move(loan)));
  }

  Lodgings lodgings_{EnqueueOn};
  std::weak_ptr<Lent> last_;  // that was lent
};

constexpr uint64_t kRound = kMostAdoptedParts / 2;

TEST_F(LodgingsTest, WhatIsPulledNoMoreIsBroughtHomeInTheEnd) {
  NDArray once({1}), always({1});
  Pull(once, 5, 1);
  const std::weak_ptr<Lent> lent = last_;
  Pull(always, 1, kRound);
  EXPECT_FALSE(lent.expired());
  for (int i = 2; i < 8; ++i) Pull(always, static_cast<float>(i), kRound);
  WaitAll();
  EXPECT_TRUE(lent.expired());
  EXPECT_THAT(once.ToVector(), ElementsAre(5));
  EXPECT_THAT(always.ToVector(), ElementsAre(7));
  EXPECT_FALSE(last_.expired()) << "what is pulled into stays where it is";
}

TEST_F(LodgingsTest, ArraysThatAreGoneAreForgotten) {
  NDArray always({1});
  for (int i = 0; i < 100; ++i) {
    NDArray gone({1});
    Pull(gone, 1, kRound / 10);
    Pull(always, static_cast<float>(i), kRound / 10);
  }
  EXPECT_THAT(always.ToVector(), ElementsAre(99));
}

TEST_F(LodgingsTest, AnArrayOfMorePartsThanAllStays) {
  NDArray large({1});
  Pull(large, 1, 10 * kMostAdoptedParts);
  EXPECT_FALSE(last_.expired());
}

}  // namespace
}  // namespace sluice::worker

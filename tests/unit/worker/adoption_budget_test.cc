#include "worker/pull/adoption_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor/access.h"

namespace sluice::worker {
namespace {

using ::testing::ElementsAre;

struct TestLease final : Lease {
  explicit TestLease(float of) : Lease(nullptr), value(of) {}
  float value;
};

class AdoptionBudgetTest : public ::testing::Test {
 protected:
  // A pull into `array`, which lands at once: whether it was adopted.
  bool Pull(NDArray& array, float value, uint64_t parts) {
    BufferSlot* const buffer_slot = BufferSlotOf(array);
    if (!budget_.Reserve(array.storage(), {parts, parts * kPartBytes})) return false;
    LetAdopt(array);
    auto lease = std::make_shared<TestLease>(value);
    last_ = lease;
    const Bytes bytes = std::as_bytes(std::span(&lease->value, 1));
    for (const Event& use : PendingUses(array)) use.Wait();
    buffer_slot->Adopt(Frame::Leased(bytes, std::move(lease)));
    return true;
  }

  static constexpr uint64_t kPartBytes = 100, kParts = 100;
  AdoptionBudget budget_{{kParts, kParts* kPartBytes}};
  std::weak_ptr<TestLease> last_;  // that was leased
};

TEST_F(AdoptionBudgetTest, WhatIsPulledNoMoreStaysForWhoReadsIt) {
  NDArray once({1}), always({1});
  Pull(once, 5, 10);
  const std::weak_ptr<TestLease> lease = last_;
  for (int i = 0; i < 100; ++i) Pull(always, static_cast<float>(i), 30);
  EXPECT_FALSE(lease.expired());
  EXPECT_THAT(once.ToVector(), ElementsAre(5));
}

TEST_F(AdoptionBudgetTest, ThereIsRoomForSoManyPartsAndBytes) {
  NDArray large({1}), fits({1}), too_much({1});
  EXPECT_FALSE(Pull(large, 1, kParts + 1));
  EXPECT_TRUE(Pull(fits, 1, kParts));
  EXPECT_FALSE(Pull(too_much, 1, 1));
  EXPECT_TRUE(Pull(fits, 2, kParts)) << "what adopted the value before has its room";
  EXPECT_FALSE(budget_.Reserve(too_much.storage(), {0, 1}));
  EXPECT_THAT(fits.ToVector(), ElementsAre(2));
}

// A model that is larger than the room: the same keys have it in every round.
TEST_F(AdoptionBudgetTest, WhatHasNoRoomTakesItFromNobody) {
  std::vector<NDArray> arrays;
  for (int k = 0; k < 10; ++k) arrays.emplace_back(Shape{1});
  for (int round = 0; round < 5; ++round) {
    for (size_t k = 0; k < arrays.size(); ++k) EXPECT_EQ(Pull(arrays[k], 1, 30), k < 3) << round << ", " << k;
  }
}

TEST_F(AdoptionBudgetTest, ArraysThatAreGoneLeaveTheirRoom) {
  NDArray always({1});
  for (int i = 0; i < 100; ++i) {
    NDArray gone({1});
    EXPECT_TRUE(Pull(gone, 1, kParts / 2));
    EXPECT_TRUE(Pull(always, static_cast<float>(i), kParts / 2));
  }
  EXPECT_THAT(always.ToVector(), ElementsAre(99));
}

// It was pulled with one key, and then with a larger one.
TEST_F(AdoptionBudgetTest, AnArrayCountsForWhatItHas) {
  NDArray array({1}), other({1});
  EXPECT_TRUE(Pull(array, 1, 1));
  EXPECT_TRUE(Pull(array, 1, kParts));
  EXPECT_FALSE(Pull(other, 1, 1));
  EXPECT_TRUE(Pull(array, 1, kParts - 1));
  EXPECT_TRUE(Pull(other, 1, 1));
}

}  // namespace
}  // namespace sluice::worker

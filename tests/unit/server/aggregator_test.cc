// What is kept of pushes until their round closes, and for how long in the workers' memory.
#include "server/aggregate/aggregator.h"

#include <gmock/gmock.h>

#include "transport/sim/sim_lease.h"
#include "unit/server/steps_fixture.h"

namespace sluice::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AggregatorTest : public StepsFixture {
 protected:
  explicit AggregatorTest(uint32_t num_workers = 2) : StepsFixture(num_workers) {}

  Result<Admission> Push(uint32_t rank, ShardKey& key, uint64_t round, float value, double divisor = 1) {
    return aggregator.AdmitSync(rank, key, key.parts[0], round, {Values(value), rank + 1, divisor});
  }
  // Moves the first part's next round to where updates read it, and returns it.
  const Round& Closed(ShardKey& key) {
    aggregator.MoveToClosed(key, key.parts[0]);
    return key.parts[0].closed;
  }
  // The first element of each gradient.
  static std::vector<float> FirstOf(const Gradients& gradients) {
    std::vector<float> first;
    for (const compression::Encoded& gradient : gradients)
      first.push_back(*reinterpret_cast<const float*>(gradient.data));
    return first;
  }

  Aggregator aggregator{keys, workers, true};
};

TEST_F(AggregatorTest, KeepsPushesByRoundAndDropsRepeats) {
  ShardKey& key = AddInitialisedKey();
  ShardPart& part = key.parts[0];
  EXPECT_EQ(Push(1, key, 2, 12).value(), Admission::kNew);
  EXPECT_EQ(Push(1, key, 1, 11).value(), Admission::kNew);
  EXPECT_EQ(Push(1, key, 1, 99).value(), Admission::kRepeat);
  EXPECT_EQ(Push(0, key, 1, 1).value(), Admission::kNew);
  ASSERT_EQ(part.rounds.size(), 2u);

  const Round& round = Closed(key);
  EXPECT_THAT(FirstOf(round.gradients()), ElementsAre(1, 11));
  EXPECT_EQ(round.samples(), 1u + 2u);
  EXPECT_EQ(round.summed(), nullptr);
  EXPECT_FALSE(round.HasLeased());
  EXPECT_EQ(part.rounds.size(), 1u);

  part.version = 1;
  EXPECT_EQ(Push(0, key, 1, 1).value(), Admission::kRepeat) << "the round has closed";
  const auto too_far = Push(0, key, 2 + plan::kMaxRoundsAhead, 1);
  EXPECT_EQ(too_far.failure().code, ErrorCode::kResourceExhausted);
}

TEST_F(AggregatorTest, DivisorsOfARoundMustAgree) {
  ShardKey& key = AddInitialisedKey();
  ASSERT_TRUE(Push(0, key, 1, 1, 2).ok());
  EXPECT_THAT(Push(1, key, 1, 1, 3).failure().message, HasSubstr("worker 1 divides by 3"));
  EXPECT_EQ(Push(1, key, 1, 1, 2).value(), Admission::kNew) << "what was refused left nothing behind";
  EXPECT_EQ(Closed(key).divisor(), 2);
}

TEST_F(AggregatorTest, WithoutDeduplicationASecondPushCounts) {
  Aggregator twice(keys, workers, false);
  ShardKey& key = AddInitialisedKey();
  for (const float value : {3.0f, 4.0f})
    EXPECT_EQ(twice.AdmitSync(0, key, key.parts[0], 1, {Values(value)}).value(), Admission::kNew);
  EXPECT_EQ(Closed(key).gradients().size(), 2u);
}

TEST_F(AggregatorTest, AnAsyncPushIsStagedUntilAllItsPartsHaveCome) {
  ShardKey& key = AddInitialisedKey(2, wire::SyncMode::kAsync);
  ShardKey::WorkerPushes& pushes = key.pushes[1];
  const auto push = [&](size_t part, uint64_t round) {
    return aggregator.AdmitAsync(pushes, key, key.parts[part], round, {Values(1)});
  };
  EXPECT_EQ(push(1, 2).value(), Admission::kNew);
  EXPECT_EQ(push(0, 1).value(), Admission::kNew);
  EXPECT_EQ(push(0, 1).value(), Admission::kRepeat);
  ASSERT_EQ(pushes.staged.size(), 2u);
  EXPECT_EQ(pushes.staged[0].arrived, 1u);
  EXPECT_EQ(push(1, 1).value(), Admission::kNew);
  EXPECT_EQ(pushes.staged[0].arrived, 2u);
  pushes.applied = 2;
  EXPECT_EQ(push(0, 2).value(), Admission::kRepeat);
}

TEST_F(AggregatorTest, ALeaseIsReturnedAfterItsTime) {
  const auto memory = std::make_shared<std::vector<float>>(2, 5.0f);
  const auto leased = [&] { return transport::SimLeased(std::as_bytes(std::span(*memory)), memory); };
  ShardKey& key = AddInitialisedKey();
  ShardKey& async = AddInitialisedKey(2, wire::SyncMode::kAsync);
  EXPECT_EQ(aggregator.NextTimer(), Time::max());
  const auto push = [&](Time now) {
    Contribution contribution{leased()};
    contribution.arrived_at = now;
    return contribution;
  };
  const Time start = Time{} + 1s;
  ASSERT_TRUE(aggregator.AdmitSync(0, key, key.parts[0], 1, push(start)).ok());
  ASSERT_TRUE(aggregator.AdmitAsync(async.pushes[0], async, async.parts[0], 1, push(start + 10ms)).ok());
  EXPECT_EQ(aggregator.NextTimer(), start + kMaxLeaseTime);

  aggregator.ReturnLeases(start + kMaxLeaseTime);
  EXPECT_FALSE(key.parts[0].rounds.front().HasLeased());
  EXPECT_TRUE(async.pushes[0].staged[0].parts[0]->gradient.leased());
  EXPECT_EQ(aggregator.NextTimer(), start + 10ms + kMaxLeaseTime);
  aggregator.ReturnLeases(aggregator.NextTimer());
  EXPECT_FALSE(async.pushes[0].staged[0].parts[0]->gradient.leased());
  EXPECT_EQ(aggregator.NextTimer(), Time::max());
  EXPECT_EQ(memory.use_count(), 1);
  EXPECT_THAT(FirstOf(Closed(key).gradients()), ElementsAre(5));
}

class AggregatorOfMany : public AggregatorTest {
 protected:
  AggregatorOfMany() : AggregatorTest(kMostKept + 1) {}
};

TEST_F(AggregatorOfMany, PushesAreAddedUpBeforeTheRoundCloses) {
  ShardKey& key = AddInitialisedKey();
  for (uint32_t rank = 0; rank < kMostKept; ++rank) ASSERT_TRUE(Push(rank, key, 1, 1).ok());
  EXPECT_EQ(key.parts[0].rounds.front().kept(), 0u);
  ASSERT_TRUE(Push(kMostKept, key, 1, 10).ok());
  const Round& round = Closed(key);
  EXPECT_THAT(round.gradients(), IsEmpty());
  ASSERT_NE(round.summed(), nullptr);
  EXPECT_EQ(*reinterpret_cast<const float*>(round.summed()), kMostKept + 10);
}

}  // namespace
}  // namespace sluice::server

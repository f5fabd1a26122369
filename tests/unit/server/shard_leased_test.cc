// Payloads that workers have leased out: what is read in place, what is copied, and when a lease is returned.
#include <gmock/gmock.h>

#include "compression/codec.h"
#include "kvstore/rows/row_frame.h"
#include "transport/sim/sim_lease.h"
#include "unit/row_ids.h"
#include "unit/server/shard_harness.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// A worker's array, which the shard reads and the test may change.
struct LeasedPush {
  explicit LeasedPush(const std::vector<float>& values)
      : memory(std::make_shared<std::vector<float>>(values)), held(memory) {}
  Frame LeasedFrame() { return transport::SimLeased(std::as_bytes(std::span(*memory)), memory); }
  Frame LeaseOut() {
    Frame frame = LeasedFrame();
    memory = nullptr;
    return frame;
  }
  bool is_back() const { return held.expired(); }

  std::shared_ptr<std::vector<float>> memory;
  std::weak_ptr<std::vector<float>> held;
};

class ShardLeased : public ::testing::Test {
 protected:
  ShardLeased() { EXPECT_TRUE(harness_.shard.SetOptimizer(Accumulate(), {}).ok()); }
  std::vector<Sent> Push(uint32_t worker, uint32_t key, uint64_t round, Frame frame,
                         Compression compression = Compression::kNone) {
    return harness_.Deliver(worker, wire::Push{.parts = {{{key, 0}, round}}, .compression = compression},
                            {std::move(frame)});
  }

  ShardHarness harness_{2};
};

TEST_F(ShardLeased, AGradientIsSummedInPlaceAndGivenBackAsTheRoundCloses) {
  const uint32_t key = harness_.AddKey(std::vector<float>(4, 1));
  LeasedPush leased({1, 2, 3, 4});
  auto* const worker_sees = leased.memory.get();
  Push(0, key, 1, leased.LeaseOut());
  EXPECT_FALSE(leased.is_back());
  (*worker_sees)[0] = 10;  // nobody would: it shows that there is no copy
  Push(1, key, 1, FrameOf(std::vector<float>(4, 100)));
  EXPECT_TRUE(leased.is_back());
  EXPECT_THAT(harness_.Weight<float>(key), ElementsAre(111, 103, 104, 105));
}

TEST_F(ShardLeased, ItIsGivenBackBeforeTheAnswerLeaves) {
  const uint32_t key = harness_.AddKey(std::vector<float>(2));
  LeasedPush leased({1, 2});
  wire::Push push{.parts = {{{key, 0}, 1, true}}};
  harness_.Deliver(0, push, {leased.LeaseOut()});
  bool back = false;
  harness_.network.on_send = [&] { back = leased.is_back(); };
  EXPECT_EQ(harness_.Deliver(1, push, {FrameOf(std::vector<float>(2))}).size(), 2u);
  EXPECT_TRUE(back);
}

TEST_F(ShardLeased, ARoundThatWaitsForLongGoesOnWithACopy) {
  const uint32_t key = harness_.AddKey(std::vector<float>(4));
  LeasedPush first({1, 2, 3, 4}), second({5, 5, 5, 5});
  Push(0, key, 1, first.LeaseOut());
  harness_.RunFor(30ms);
  Push(0, key, 2, second.LeaseOut());
  harness_.RunFor(15ms);
  EXPECT_FALSE(first.is_back());
  harness_.RunFor(5ms);
  EXPECT_TRUE(first.is_back());
  EXPECT_FALSE(second.is_back());
  harness_.RunFor(30ms);
  EXPECT_TRUE(second.is_back());
  EXPECT_EQ(harness_.shard.NextTimer(), Time::max());
  Push(1, key, 1, FrameOf(std::vector<float>(4, 10)));
  EXPECT_THAT(harness_.Weight<float>(key), ElementsAre(11, 12, 13, 14));
}

TEST_F(ShardLeased, ALoopThatWakesLateGivesItBackAllTheSame) {
  const uint32_t key = harness_.AddKey(std::vector<float>(2));
  LeasedPush leased({1, 2});
  Push(0, key, 1, leased.LeaseOut());
  harness_.now += 10s;
  harness_.shard.OnTimer(harness_.now, harness_.network);
  EXPECT_TRUE(leased.is_back());
  EXPECT_EQ(harness_.shard.NextTimer(), Time::max());
}

TEST_F(ShardLeased, AnAsyncPushThatIsNotWholeIsCopiedToo) {
  const uint32_t key = harness_.AddKey(std::vector<float>(8), wire::SyncMode::kAsync, 4);
  LeasedPush leased({1, 1, 1, 1});
  Push(0, key, 1, leased.LeaseOut());
  EXPECT_FALSE(leased.is_back());
  harness_.RunFor(50ms);
  EXPECT_TRUE(leased.is_back());
  harness_.PushPart(0, {key, 1}, 1, std::vector<float>(4, 2));
  EXPECT_THAT(harness_.Weight<float>(key), ElementsAre(1, 1, 1, 1, 2, 2, 2, 2));
}

TEST_F(ShardLeased, ARepeatIsGivenBackAtOnce) {
  const uint32_t key = harness_.AddKey(std::vector<float>(1));
  LeasedPush leased({1}), repeat({1});
  Push(0, key, 1, leased.LeaseOut());
  Push(0, key, 1, repeat.LeaseOut());
  EXPECT_TRUE(repeat.is_back());
  EXPECT_FALSE(leased.is_back());
}

TEST_F(ShardLeased, FirstValuesAreCopied) {
  const wire::KeyEntry entry = ShardHarness::EntryOf(0, DType::kFloat32, 2, wire::SyncMode::kSync, 100);
  ASSERT_TRUE(harness_.shard.AddKeys({entry}).ok());
  LeasedPush leased({3, 4});
  harness_.Deliver(0, wire::Store{.parts = {{.ref = {0, 0}}}}, {leased.LeaseOut()});
  EXPECT_TRUE(leased.is_back());
}

// Places that are checked and then written to: who changes them in between must not reach beyond the part.
TEST_F(ShardLeased, WhatWasCheckedIsWhatIsUsed) {
  const uint32_t key = harness_.AddKey(std::vector<float>(64));
  const GradientCompression how{.type = Compression::kTopK, .ratio = 0.125};
  const std::vector<float> gradient(64, 1);
  std::vector<float> residual(64);
  auto memory = std::make_shared<std::vector<std::byte>>(compression::EncodedBytes(how, DType::kFloat32, 64));
  compression::Encode(how, DType::kFloat32, reinterpret_cast<const std::byte*>(gradient.data()), 64,
                      residual.data(), memory->data());
  Push(0, key, 1, transport::SimLeased(*memory, memory), Compression::kTopK);
  EXPECT_EQ(memory.use_count(), 1);
  std::ranges::fill(*memory, std::byte{0xff});
  Push(1, key, 1, FrameOf(std::vector<float>(64)));
  float sum = 0;
  for (const float weight : harness_.Weight<float>(key)) sum += weight;
  EXPECT_EQ(sum, 8);
}

TEST_F(ShardLeased, RowsAreCopiedBeforeTheyAreChecked) {
  plan::Placement placement({.num_shards = 1});
  const wire::KeyEntry entry =
      placement.EntryOf(0, {"table", DType::kFloat32, {320, 1}, 0, RowInit()}, wire::SyncMode::kSync);
  ASSERT_TRUE(harness_.shard.AddKeys({entry}).ok());
  auto memory = std::make_shared<std::vector<std::byte>>(sizeof(int64_t) + sizeof(float));
  const int64_t row = RowOfPartZero(1, 32);
  const float value = 2;
  std::memcpy(memory->data(), &row, sizeof row);
  std::memcpy(memory->data() + sizeof row, &value, sizeof value);
  for (uint32_t worker = 0; worker < 2; ++worker) {
    wire::Push push;
    wire::Frames frames;
    for (uint32_t part = 0; part < 32; ++part) {
      push.parts.push_back({{0, part}, 1, false});
      frames.push_back(part == 0 && worker == 0 ? transport::SimLeased(*memory, memory) : Frame());
    }
    EXPECT_TRUE(OnlyAck(harness_.Deliver(worker, push, std::move(frames))));
    EXPECT_EQ(memory.use_count(), 1);
    std::ranges::fill(*memory, std::byte{0x7f});
  }
  const auto ids = std::make_shared<std::vector<int64_t>>(1, row);
  const Frame wanted = transport::SimLeased(std::as_bytes(std::span(*ids)), ids);
  const auto answers = harness_.Deliver(0, wire::PullRows{{{{0, 0}, 0, 1}}}, {wanted});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_THAT(ValuesOf<float>(answers[0].message.payload[0]), ElementsAre(2));
}

// Ids that are checked first and read again as they are stored.
TEST_F(ShardLeased, RowsThatAreSetAreCopiedBeforeTheyAreChecked) {
  plan::Placement placement({.num_shards = 1});
  const wire::KeyEntry entry =
      placement.EntryOf(0, {"table", DType::kFloat32, {320, 1}, 0, RowInit()}, wire::SyncMode::kSync);
  ASSERT_TRUE(harness_.shard.AddKeys({entry}).ok());
  auto memory = std::make_shared<std::vector<std::byte>>(sizeof(int64_t) + sizeof(float));
  const int64_t row = RowOfPartZero(1, 32);
  std::memcpy(memory->data(), &row, sizeof row);
  EXPECT_TRUE(OnlyAck(harness_.Deliver(0, wire::Store{wire::Store::Purpose::kRows, {{.ref = {0, 0}}}},
                                       {transport::SimLeased(*memory, memory)})));
  EXPECT_EQ(harness_.Counter("bytes_copied"), memory->size());
}

// Weights come from memory that can be leased out.
TEST(ShardMemory, WeightsLieWhereTheServerSays) {
  class Counting final : public Allocator {
   public:
    void* Allocate(size_t size) override {
      bytes += size;
      return HeapAllocator()->Allocate(size);
    }
    void Deallocate(void* data, size_t size) noexcept override { HeapAllocator()->Deallocate(data, size); }
    size_t bytes = 0;
  };
  const auto memory = std::make_shared<Counting>();
  server::ShardOptions options;
  options.memory = memory;
  ShardHarness harness(1, options);
  const uint32_t key = harness.AddKey(std::vector<float>(1000));
  EXPECT_EQ(memory->bytes, 4000u);
  const auto kept = harness.Pull(0, key, 0);
  harness.Push(0, key, 1, std::vector<float>(1000, 1));  // beside a reader of the version before
  EXPECT_EQ(memory->bytes, 8000u);
}

}  // namespace
}  // namespace sluice::testing

// Values that land: copied, or adopted where a shard has leased them out.
#include <gmock/gmock.h>

#include "transport/sim/sim_lease.h"
#include "unit/worker/client_harness.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class Array final : public BufferSlot {
 public:
  explicit Array(size_t elements) : own_(elements) {}
  void Adopt(Frame frame) override { adopted_ = std::move(frame); }
  MutableBytes RestoreOwnBuffer() override {
    adopted_ = Frame();
    return std::as_writable_bytes(std::span(own_));
  }
  size_t size() const override { return own_.size() * sizeof(float); }

  bool adopted() const { return adopted_.leased(); }
  std::vector<float> values() const {
    if (!adopted()) return own_;
    const auto* begin = reinterpret_cast<const float*>(adopted_.data());
    return {begin, begin + own_.size()};
  }

 private:
  std::vector<float> own_;
  Frame adopted_;
};

class Delivery : public ClientHarness {
 protected:
  static constexpr int64_t kPart = 4;

  Delivery() {
    AddKey(EntryOf(0, {0}, kPart));
    AddKey(EntryOf(1, {0, 0}, kPart));
  }
  std::vector<Sent> PullInto(uint32_t key, Array* array) {
    outcome_ = {};
    client.Submit(now, PullOf(key, {.buffer_slot = array}, outcome_.Record()), network);
    return ToShards();
  }
  // A value of one part, in memory that the test looks after.
  Frame Leased(float value) {
    auto memory = std::make_shared<std::vector<float>>(kPart, value);
    last_ = memory;
    return transport::SimLeased(std::as_bytes(std::span(*memory)), memory);
  }
  void Answer(const Sent& request, uint32_t key, const std::vector<Frame>& parts, uint32_t first = 0) {
    wire::Values values{true, {}};
    wire::Frames payload;
    for (const Frame& part : parts) {
      values.parts.push_back({{key, first++}, 0, 1});
      payload.push_back(part);
    }
    FromShard(0, request.message.id, std::move(values), std::move(payload));
  }

  Outcome outcome_;
  std::weak_ptr<std::vector<float>> last_;
};

TEST_F(Delivery, LeasedValuesAreAdopted) {
  Array array(kPart);
  Answer(PullInto(0, &array).at(0), 0, {Leased(3)});
  EXPECT_TRUE(outcome_.Succeeded());
  EXPECT_TRUE(array.adopted());
  EXPECT_THAT(array.values(), Each(3));
  EXPECT_EQ(client.bytes_copied(), 0u);
  EXPECT_FALSE(last_.expired());
  array.RestoreOwnBuffer();
  EXPECT_TRUE(last_.expired()) << "nobody else holds it";
}

TEST_F(Delivery, WhatCameInAMessageIsCopied) {
  Array array(kPart);
  Answer(PullInto(0, &array).at(0), 0, {Leased(3)});
  Answer(PullInto(0, &array).at(0), 0, {FrameOf(std::vector<float>(kPart, 4))});
  EXPECT_TRUE(outcome_.Succeeded());
  EXPECT_FALSE(array.adopted());
  EXPECT_TRUE(last_.expired());
  EXPECT_THAT(array.values(), Each(4));
  EXPECT_EQ(client.bytes_copied(), kPart * sizeof(float));
}

// Parts that cannot be mapped side by side.
TEST_F(Delivery, PartsThatDoNotFitTogetherAreCopied) {
  Array array(2 * kPart);
  const Sent request = PullInto(1, &array).at(0);
  Answer(request, 1, {Leased(6)}, 1);
  EXPECT_EQ(outcome_.calls, 0);
  EXPECT_FALSE(last_.expired()) << "kept until the other comes";
  Answer(request, 1, {Leased(5)});
  EXPECT_TRUE(outcome_.Succeeded());
  EXPECT_FALSE(array.adopted());
  EXPECT_TRUE(last_.expired());
  EXPECT_THAT(array.values(), ElementsAre(5, 5, 5, 5, 6, 6, 6, 6));
  EXPECT_EQ(client.bytes_copied(), 2 * kPart * sizeof(float));
}

TEST_F(Delivery, PartsOfWhichSomeAreLeasedAreCopied) {
  for (const bool leased_first : {true, false}) {
    Array array(2 * kPart);
    const Sent request = PullInto(1, &array).at(0);
    const Frame sent = FrameOf(std::vector<float>(kPart, 5));
    leased_first ? Answer(request, 1, {Leased(6)}, 1) : Answer(request, 1, {sent});
    leased_first ? Answer(request, 1, {sent}) : Answer(request, 1, {Leased(6)}, 1);
    EXPECT_TRUE(outcome_.Succeeded());
    EXPECT_THAT(array.values(), ElementsAre(5, 5, 5, 5, 6, 6, 6, 6)) << leased_first;
  }
}

TEST_F(Delivery, WhatWasKeptGoesBackWhenThePullFails) {
  Array array(2 * kPart);
  const Sent request = PullInto(1, &array).at(0);
  Answer(request, 1, {Leased(6)});
  FromShard(0, request.message.id, wire::ErrorReply{ErrorCode::kUnavailable, "no more"});
  EXPECT_NE(outcome_.Error().find("no more"), std::string::npos);
  EXPECT_TRUE(last_.expired());
}

// For whoever copies them from the lease, as stores do to GPUs.
TEST_F(Delivery, LeasedPartsAreHandedOnWithTheirPlacesAndOthersAreCopied) {
  std::vector<float> memory(2 * kPart, -1);
  const auto leased = std::make_shared<PlacedFrames>();
  worker::Destination to = Into(&memory);
  to.leased = leased;
  client.Submit(now, PullOf(1, to, outcome_.Record()), network);
  const Sent request = ToShards().at(0);
  Answer(request, 1, {Leased(6)}, 1);
  Answer(request, 1, {FrameOf(std::vector<float>(kPart, 5))});
  EXPECT_TRUE(outcome_.Succeeded());
  EXPECT_THAT(memory, ElementsAre(5, 5, 5, 5, -1, -1, -1, -1));
  ASSERT_EQ(leased->size(), 1u);
  EXPECT_EQ(leased->front().offset, kPart * sizeof(float));
  EXPECT_EQ(leased->front().frame.size(), kPart * sizeof(float));
  EXPECT_FALSE(last_.expired());
  to.leased->clear();
  EXPECT_TRUE(last_.expired()) << "nobody else holds it";
}

// Somebody else's array may have it, too.
TEST_F(Delivery, TwoPullsShareALease) {
  Array one(kPart), other(kPart);
  const Sent first = PullInto(0, &one).at(0);
  PullInto(0, &other);
  Answer(first, 0, {Leased(3)});
  EXPECT_TRUE(one.adopted());
  EXPECT_THAT(one.values(), Each(3));
  one.RestoreOwnBuffer();
  EXPECT_EQ(other.adopted(), !last_.expired());
}

}  // namespace
}  // namespace sluice::testing

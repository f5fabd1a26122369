// A shard's small classes by themselves: rounds, weights, parts, replies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/keys/shard_part.h"
#include "server/reply/reply_batcher.h"
#include "tensor/types/half.h"

namespace sluice::server {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;

Contribution Of(const std::byte& at, uint64_t samples = 1) {
  return {Frame(Bytes(&at, 1), nullptr), samples, 1};
}

TEST(Round, ClosesOnTheSetOfLiveWorkersNotOnACount) {
  const std::byte bytes[4] = {};
  Round round;
  round.Add(0, Of(bytes[0]));
  round.Add(2, Of(bytes[2]));
  EXPECT_FALSE(round.Complete({0, 1}));  // two came, but not these two
  EXPECT_THAT(round.Missing({0, 1, 3}), ElementsAre(1, 3));
  EXPECT_TRUE(round.Complete({0, 2}));
  EXPECT_TRUE(round.Complete({2}));
  EXPECT_FALSE(round.Complete({}));  // nobody lives: nothing closes
}

TEST(Round, HandsOutGradientsInRankOrder) {
  const std::byte bytes[4] = {};
  Round round;
  for (const uint32_t rank : {3u, 0u, 2u}) round.Add(rank, Of(bytes[rank], rank + 1));
  const auto at = [](const std::byte& byte) { return Field(&compression::Encoded::data, &byte); };
  EXPECT_THAT(round.gradients(), ElementsAre(at(bytes[0]), at(bytes[2]), at(bytes[3])));
  EXPECT_EQ(round.samples(), 8u);
}

TEST(VersionedWeight, IsWrittenInPlaceWhenNobodyReadsIt) {
  VersionedWeight weight(64);
  const std::byte* const first = weight.data();
  weight.Next()[0] = std::byte{1};
  weight.Publish();
  EXPECT_EQ(weight.data(), first);
  EXPECT_EQ(weight.data()[0], std::byte{1});
}

TEST(VersionedWeight, MovesWhileItIsReadAndReusesWhatWasRead) {
  VersionedWeight weight(64);
  weight.Next()[0] = std::byte{1};
  weight.Publish();
  const std::byte* const first = weight.data();
  Frame held = weight.Share();
  weight.Next()[0] = std::byte{2};
  EXPECT_EQ(held.data()[0], std::byte{1});
  EXPECT_EQ(weight.Share().data()[0], std::byte{1});  // not yet published
  weight.Publish();
  EXPECT_EQ(held.data()[0], std::byte{1});
  EXPECT_EQ(weight.data()[0], std::byte{2});
  Frame second = weight.Share();
  held = Frame();
  EXPECT_EQ(weight.Next(), first);
}

TEST(VersionedWeight, AReplyOutlivesThePart) {
  Frame held;
  {
    VersionedWeight weight(4);
    weight.Next()[3] = std::byte{9};
    weight.Publish();
    held = weight.Share();
  }
  EXPECT_EQ(held.data()[3], std::byte{9});
}

TEST(VersionedWeight, IsRoundedOnceForAVersion) {
  VersionedWeight weight(4 * sizeof(float));
  const auto publish = [&](float value) {
    std::fill_n(reinterpret_cast<float*>(weight.Next()), 4, value);
    weight.Publish();
  };
  const auto halves = [](const Frame& frame) {
    std::vector<float> values(frame.size() / 2);
    HalfToFloat(frame.data(), values.data(), values.size());
    return values;
  };
  publish(1.0001f);
  const std::byte* const memory = weight.Share(Compression::kFloat16).data();
  Frame first = weight.Share(Compression::kFloat16);
  EXPECT_EQ(first.data(), memory);
  EXPECT_THAT(halves(first), Each(1.0f));
  EXPECT_EQ(weight.Share(Compression::kBFloat16).size(), 8u);
  publish(2.0001f);
  const Frame second = weight.Share(Compression::kFloat16);
  EXPECT_THAT(halves(second), Each(2.0f));
  EXPECT_THAT(halves(first), Each(1.0f));  // still on its way
  EXPECT_EQ(weight.Share().size(), 16u);
}

TEST(ShardPart, ARepeatReplacesItsPendingRequest) {
  ShardPart part;
  part.AddPending({.rank = 1, .request_id = 5, .next_status_at = Time{} + 1s});
  part.AddPending({.rank = 2, .request_id = 6});
  part.AddPending({.rank = 1, .slot = 1, .request_id = 7});
  part.AddPending({.rank = 1, .request_id = 5, .next_status_at = Time{} + 9s});
  ASSERT_EQ(part.pending.size(), 3u);
  EXPECT_EQ(part.pending[0].next_status_at, Time{} + 1s);
  part.AddPending({.rank = 1, .request_id = 8, .next_status_at = Time{} + 9s});
  ASSERT_EQ(part.pending.size(), 3u);
  EXPECT_EQ(part.pending[0].request_id, 8u);
  EXPECT_EQ(part.pending[0].next_status_at, Time{} + 9s);
}

TEST(ReplyBatcher, GroupByPeerAndRequest) {
  ReplyBatcher replies;
  const Frame frame = Frame::Copy(AsBytes("abcd"));
  replies.Add({1}, 10, {{0, 0}}, true, frame);
  replies.Add({2}, 10, {{0, 0}}, true, frame);
  replies.Add({1}, 10, {{0, 1}}, true, frame);
  replies.Add({1}, 11, {{0, 1}}, true, frame);
  replies.Add({1}, 11, {{0, 2}}, false,
              Frame());  // a version alone: no frame to go with it
  std::vector<std::tuple<uint64_t, uint64_t, size_t, size_t>> sent;
  replies.Flush([&](transport::PeerId peer, uint64_t request, wire::Values values, wire::Frames frames) {
    sent.emplace_back(peer.value, request, values.parts.size(), frames.size());
  });
  EXPECT_THAT(sent, ElementsAre(std::tuple(1, 10, 2, 2), std::tuple(2, 10, 1, 1), std::tuple(1, 11, 1, 1),
                                std::tuple(1, 11, 1, 0)));
  EXPECT_TRUE(replies.empty());
}

// Keys that close one after the other answer each worker's request in turn.
TEST(ReplyBatcher, ManyRequestsInTurnsGetOneMessageEach) {
  constexpr uint64_t kRequests = 1000;
  constexpr uint32_t kKeys = 40;
  ReplyBatcher replies;
  for (int flush = 0; flush < 2; ++flush) {
    for (uint32_t key = 0; key < kKeys; ++key)
      for (uint64_t request = 0; request < kRequests; ++request)
        replies.Add({request % 7}, request, {{key, 0}}, true, Frame::Copy(AsBytes("abcd")));
    uint64_t next = 0;
    replies.Flush([&](transport::PeerId peer, uint64_t request, wire::Values values, wire::Frames frames) {
      ASSERT_EQ(request, next++);  // in the order of their first values
      ASSERT_EQ(peer.value, request % 7);
      ASSERT_EQ(frames.size(), kKeys);
      for (uint32_t key = 0; key < kKeys; ++key) ASSERT_EQ(values.parts[key].ref.key, key);
    });
    EXPECT_EQ(next, kRequests);
  }
}

TEST(ReplyBatcher, ASmallValueGoesWhereAnEarlierMessageHasRoom) {
  ReplyBatcher replies;
  const auto add = [&](size_t bytes) {
    replies.Add({1}, 10, {}, true, Frame::Of(std::make_shared<Buffer>(bytes)));
  };
  for (const size_t bytes : {ReplyBatcher::kMostMessageBytes / 2, ReplyBatcher::kMostMessageBytes,
                             ReplyBatcher::kMostMessageBytes / 4, ReplyBatcher::kMostMessageBytes / 2})
    add(bytes);
  std::vector<size_t> frames_of;
  replies.Flush([&](transport::PeerId, uint64_t, wire::Values, wire::Frames frames) {
    frames_of.push_back(frames.size());
  });
  EXPECT_THAT(frames_of, ElementsAre(2, 1, 1));
}

}  // namespace
}  // namespace sluice::server

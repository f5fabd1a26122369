// Tests wire/packing.h: small frames of a message travel as one, and those that lie one behind the other do
// without a copy.
#include "wire/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/pool_allocator.h"
#include "unit/wire/expect_same.h"

namespace sluice::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::PayloadOf;

using Texts = std::vector<std::string>;

Message PackedPush(const Texts& payload) {
  Message message;
  message.body = Push{.parts = PartList<PushPart>(payload.size())};
  for (const std::string& frame : payload) message.payload.push_back(Frame::Copy(AsBytes(frame)));
  return message;
}

// As it travels: the envelope coded and decoded, the frames as they are.
Message Travelled(const Message& message) {
  Message arrived = DecodeEnvelope(EncodeEnvelope(message).bytes(), Limits{}).value();
  arrived.payload = message.payload;
  return arrived;
}

Message PackedOf(const Texts& payload) {
  Message message = PackedPush(payload);
  Pack(&message, HeapAllocator());
  return message;
}

TEST(Packing, SmallFramesTravelAsOneAndComeApartAsTheyWere) {
  const std::string four_kib(4096, 'k');
  for (const Texts& payload : {Texts{"a", "bc"}, Texts{"", four_kib, ""}, Texts(40, four_kib),
                               Texts{std::string(2 * kPackedFrame, 'x'), ""}}) {
    Message message = PackedPush(payload);
    const uint64_t bytes = PayloadBytes(message);
    EXPECT_EQ(Pack(&message, HeapAllocator()), bytes);
    ASSERT_EQ(message.payload.size(), 1u);
    EXPECT_EQ(message.payload[0].size(), bytes);
    Message arrived = Travelled(message);
    ASSERT_TRUE(Unpack(&arrived).ok());
    EXPECT_THAT(PayloadOf(arrived), ElementsAreArray(payload));
    EXPECT_THAT(arrived.packed, IsEmpty());
    for (const Frame& frame : arrived.payload)
      EXPECT_EQ(frame.owner(), message.payload[0].owner()) << "it was copied";
  }
}

TEST(Packing, LargeFramesASingleOneAndNoneTravelAsTheyAre) {
  for (const Texts& payload : {Texts{}, Texts{"alone"}, Texts{std::string(2 * kPackedFrame, 'x'), "y"},
                               Texts(kMostPacked / kPackedFrame + 1, std::string(kPackedFrame, 'x'))}) {
    Message message = PackedPush(payload);
    EXPECT_EQ(Pack(&message, HeapAllocator()), 0u);
    EXPECT_THAT(PayloadOf(message), ElementsAreArray(payload));
    EXPECT_THAT(message.packed, IsEmpty());
    EXPECT_TRUE(Unpack(&message).ok());
    EXPECT_THAT(PayloadOf(message), ElementsAreArray(payload));
  }
}

TEST(Joining, FramesOneBehindTheOtherInOneMemoryTravelAsOneUncopied) {
  const Frame block = Frame::Copy(AsBytes("abcdef"));
  Message message;
  message.body = Push{.parts = PartList<PushPart>(3)};
  for (const auto& [offset, length] : {std::pair(1, 2), {3, 0}, {3, 3}})
    message.payload.push_back(block.Slice(static_cast<size_t>(offset), static_cast<size_t>(length)));
  Join(&message);
  ASSERT_EQ(message.payload.size(), 1u);
  EXPECT_EQ(message.payload[0].data(), block.data() + 1);
  EXPECT_EQ(message.payload[0].owner(), block.owner());
  Message arrived = Travelled(message);
  ASSERT_TRUE(Unpack(&arrived).ok());
  EXPECT_THAT(PayloadOf(arrived), ElementsAreArray({"bc", "", "def"}));
}

TEST(Joining, LargePartsOfOneArrayTravelAsOneToo) {
  const Frame array = Frame::Copy(AsBytes(std::string(kMostPacked, 'x')));
  Message message;
  message.payload = {array.Slice(0, kMostPacked / 2), array.Slice(kMostPacked / 2, kMostPacked / 2)};
  Join(&message);
  ASSERT_EQ(message.payload.size(), 1u);
  EXPECT_EQ(message.payload[0].data(), array.data());
  EXPECT_THAT(message.packed, ElementsAre(kMostPacked / 2, kMostPacked / 2));
}

TEST(Joining, OthersStayAsTheyAre) {
  const Frame block = Frame::Copy(AsBytes("abcdef")), other = Frame::Copy(AsBytes("gh"));
  const Frame large = Frame::Copy(AsBytes(std::string(kMostPacked + 1, 'x')));
  const Frame leased = Frame::Leased(block.bytes(), std::make_shared<Lease>(nullptr));
  for (const Frames& frames : {Frames{block}, Frames{block.Slice(0, 2), block.Slice(3, 3)},
                               Frames{block.Slice(3, 3), block.Slice(0, 3)}, Frames{block, other},
                               Frames{large.Slice(0, kMostPacked), large.Slice(kMostPacked, 1)},
                               Frames{leased.Slice(0, 3), leased.Slice(3, 3)}, Frames{}}) {
    Message message;
    message.payload = frames;
    Join(&message);
    EXPECT_EQ(message.payload.size(), frames.size());
    EXPECT_THAT(message.packed, IsEmpty());
  }
}

TEST(Packing, TakesMemoryOfTheAllocatorGiven) {
  const auto memory = std::make_shared<PoolAllocator>();
  const auto packed = [&] {
    Message message = PackedPush(Texts(2, std::string(5000, 'x')));
    Pack(&message, memory);
    return message.payload[0];
  };
  const std::byte* first = packed().data();
  EXPECT_EQ(packed().data(), first) << "the block given back";
}

TEST(Packing, SizesThatDoNotFitWhatCameAreRefused) {
  const auto refusal = [](const Message& message) {
    Message arrived = Travelled(message);
    const Status status = Unpack(&arrived);
    return status.ok() ? "" : status.failure().message;
  };
  Message longer = PackedOf({"a", "bc"});
  longer.packed.push_back(1);
  EXPECT_THAT(refusal(longer), HasSubstr("3 frames of together 4 bytes"));
  Message several = PackedOf({"a", "bc"});
  several.payload.push_back(Frame::Copy(AsBytes("d")));
  EXPECT_THAT(refusal(several), HasSubstr("came with 2 frames of 4 bytes"));
  Message none = PackedOf({"a", "bc"});
  none.payload.clear();
  EXPECT_THAT(refusal(none), HasSubstr("came with 0 frames"));
  Message overflowing = PackedOf({"a", "bc"});  // 2^32 + 3 is not 3
  overflowing.packed = {UINT32_MAX, 4};
  EXPECT_THAT(refusal(overflowing), HasSubstr("together 4294967299 bytes"));
}

TEST(Packing, MoreFramesThanAMessageMayHaveAreRefusedUnread) {
  Message message = PackedOf({"a", "bc"});
  const Limits limits{.max_payload_frames = 1};
  EXPECT_THAT(DecodeEnvelope(EncodeEnvelope(message).bytes(), limits).failure().message,
              HasSubstr("packed payload frames"));
}

}  // namespace
}  // namespace sluice::wire

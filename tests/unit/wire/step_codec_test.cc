// The messages that are coded by hand, beside what protobuf's classes make of them.
#include "wire/step_codec.h"

#include <gmock/gmock.h>

#include <limits>

#include "unit/encoded.h"
#include "unit/wire/expect_same.h"
#include "unit/wire/random_message.h"
#include "wire/generated_codec.h"

namespace sluice::wire {
namespace {

using sluice::testing::Encoded;
using testing::ExpectSame;
using testing::PayloadOf;
using testing::RandomMessages;

std::string Generated(const Message& message) {
  return std::string(AsText(EncodeGenerated(message, kProtocolVersion, HeapAllocator()).bytes()));
}

std::optional<std::string> ByHand(const Message& message) {
  const auto frame = EncodeStep(message, kProtocolVersion, HeapAllocator());
  return frame ? std::optional<std::string>(AsText(frame->bytes())) : std::nullopt;
}

bool Read(const std::string& envelope, Message* out, const Limits& limits = {}) {
  // A copy of its own, so that AddressSanitizer sees a read beyond the end.
  const std::vector<char> bytes(envelope.begin() + kVersionBytes, envelope.end());
  return DecodeStep(AsBytes({bytes.data(), bytes.size()}), limits, HeapAllocator(), out);
}

template <typename... T>
std::vector<size_t> IndicesOf() {
  return {Body(T{}).index()...};
}

class StepMessages : public ::testing::TestWithParam<size_t> {
 protected:
  // Also with what travels in shared memory, or packed.
  Message Make() {
    Message message = random_.Make(GetParam());
    if (rng_.Chance(0.3)) {
      for (uint32_t index = 0; rng_.Chance(0.8); index += 1 + static_cast<uint32_t>(rng_.Below(3)))
        message.leased.push_back(
            {index, rng_.Next() >> rng_.Below(64), rng_.Below(9), rng_.Next(), rng_.Below(1 << 20)});
    }
    if (rng_.Chance(0.3)) {
      while (rng_.Chance(0.8)) message.packed.push_back(static_cast<uint32_t>(rng_.Next() >> rng_.Below(64)));
    }
    return message;
  }

  Rng rng_{GetParam()};
  RandomMessages random_{GetParam() + 1};
};
INSTANTIATE_TEST_SUITE_P(Wire, StepMessages, ::testing::ValuesIn(IndicesOf<Push, Pull, Values, Ack>()),
                         [](const auto& info) { return std::string(BodyName(info.param)); });

TEST_P(StepMessages, AreWrittenAsProtobufWrites) {
  for (int i = 0; i < 2000; ++i) {
    const Message message = Make();
    const std::optional<std::string> by_hand = ByHand(message);
    ASSERT_TRUE(by_hand.has_value()) << Describe(message);
    ASSERT_EQ(*by_hand, Generated(message)) << Describe(message);
  }
}

TEST_P(StepMessages, AreReadAsProtobufReads) {
  for (int i = 0; i < 2000; ++i) {
    const Message message = Make();
    Message read;
    ASSERT_TRUE(Read(Generated(message), &read)) << Describe(message);
    ExpectSame(read, message);
    EXPECT_EQ(PayloadOf(read), IsPayloadInline(message) ? PayloadOf(message) : std::vector<std::string>());
  }
}

TEST_P(StepMessages, DamagedOnesAreReadAsProtobufReadsThemOrNotAtAll) {
  int read_by_hand = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = Generated(Make());
    for (uint64_t n = 1 + rng_.Below(3); n > 0; --n)
      bytes[kVersionBytes + rng_.Below(bytes.size() - kVersionBytes)] ^=
          static_cast<char>(1 + rng_.Below(255));
    if (rng_.Chance(0.2)) bytes.resize(kVersionBytes + rng_.Below(bytes.size() - kVersionBytes));
    Message read;
    if (!Read(bytes, &read)) continue;
    ++read_by_hand;
    const auto generated = DecodeGenerated(AsBytes(bytes), Limits{}, HeapAllocator());
    ASSERT_TRUE(generated.ok()) << generated.failure().message;
    ExpectSame(read, generated.value());
    EXPECT_EQ(PayloadOf(read), PayloadOf(generated.value()));
  }
  EXPECT_GT(read_by_hand, 1000);
}

constexpr auto kMost = std::numeric_limits<uint64_t>::max();
constexpr auto kMost32 = std::numeric_limits<uint32_t>::max();

// Every number is the widest of its type.
Message Widest(Body body) {
  Message message;
  message.job = message.id = message.in_reply_to = message.trace_id = message.epoch = kMost;
  message.sender = {Role::kWorker, kMost32, kMost};
  message.body = std::move(body);
  return message;
}
Message WidestPush(size_t parts) {
  Push push{.samples = kMost,
            .divisor = -0.1,
            .parts = {},
            .compression = Compression::kTopK,
            .values = Compression::kTopK,
            .exponent = kMost32};
  for (size_t i = 0; i < parts; ++i) push.parts.push_back({{kMost32, kMost32}, kMost, true});
  return Widest(std::move(push));
}
Message WidestPull(size_t parts) {
  Pull pull{.want = Pull::Want::kSet, .parts = {}, .values = Compression::kTopK};
  for (size_t i = 0; i < parts; ++i) pull.parts.push_back({{kMost32, kMost32}, kMost32, kMost});
  return Widest(std::move(pull));
}
Message WidestValues(size_t parts) {
  Values values{.has_data = true, .parts = {}, .compression = Compression::kTopK};
  for (size_t i = 0; i < parts; ++i) values.parts.push_back({{kMost32, kMost32}, kMost32, kMost});
  return Widest(std::move(values));
}
Message WidestLeased(size_t frames) {
  Message message = Widest(Ack{});
  for (uint32_t i = 0; i < frames; ++i)
    message.leased.push_back({kMost32 - 4096 + i, kMost, kMost, kMost, kMost});
  return message;
}
Message WidestPacked(size_t frames) {
  Message message = Widest(Ack{});
  for (size_t i = 0; i < frames; ++i) message.packed.push_back(kMost32);
  return message;
}
Message WidestInside(size_t frames) {
  Message message = WidestPush(100);
  for (size_t i = 0; i < frames; ++i) message.payload.push_back(Frame::Copy(AsBytes(i % 2 == 0 ? "xx" : "")));
  return message;
}

// Under AddressSanitizer: what is written by hand stays in the room that it has.
TEST(StepCodec, WhatHasNoRoomIsLeftToProtobuf) {
  for (Message (*widest)(size_t) :
       {WidestPush, WidestPull, WidestValues, WidestLeased, WidestPacked, WidestInside}) {
    size_t most = 0;
    bool by_hand = true;
    for (size_t count = 0; count < 1000; ++count) {
      const Message message = widest(count);
      const std::optional<std::string> written = ByHand(message);
      if (widest != WidestInside) {
        EXPECT_GE(by_hand, written.has_value()) << count << " have room, but fewer have not";
      }
      by_hand = written.has_value();
      if (by_hand) most = std::max(most, written->size());
      ASSERT_EQ(by_hand ? *written : Encoded(message), Generated(message)) << count;
    }
    if (widest == WidestInside) continue;  // frames that are too many to travel inside take no room
    EXPECT_FALSE(by_hand);
    EXPECT_GT(most, 3000u) << "the room is used";
  }
}

TEST(StepCodec, MessagesOfAnySizeAreReadByHand) {
  for (const Message& message : {WidestPush(5000), WidestPull(5000), WidestValues(5000)}) {
    Message read;
    ASSERT_TRUE(Read(Generated(message), &read));
    ExpectSame(read, message);
  }
}

TEST(StepCodec, OtherMessagesAreLeftToProtobuf) {
  RandomMessages random(7);
  for (size_t body = 0; body < std::variant_size_v<BodyVariant>; ++body) {
    const auto step = IndicesOf<Push, Pull, Values, Ack>();
    if (std::ranges::find(step, body) != step.end()) continue;
    const Message message = random.Make(body);
    Message read;
    EXPECT_FALSE(ByHand(message).has_value()) << BodyName(body);
    EXPECT_FALSE(Read(Generated(message), &read)) << BodyName(body);
  }
}

// Fields of an envelope, by hand.
const std::string kVersion("\x0d\x01\x00\x00\x00", kVersionBytes);
const std::string kSender("\x1a\x02\x08\x03");  // field 3, of 2 bytes: role worker
const std::string kAck("\xa2\x02\x00", 3);      // field 36, empty

TEST(StepCodec, WhatProtobufAllowsAndNobodyWritesIsReadByProtobuf) {
  const std::string others[] = {
      kVersion + kSender + kSender + kAck,                         // a sender that comes twice
      kVersion + kSender + kAck + kAck,                            // a body that does
      kVersion + kSender + kAck + kVersion,                        // the version
      kVersion + kSender + kAck + std::string("\xfa\x3f\x00", 3),  // a field that is not known
      kVersion + kSender +
          std::string("\xd2\x01\x08\x08\x01\x12\x02\x08\x05\x18\x01", 11),  // keys one by one
  };
  for (const std::string& bytes : others) {
    Message read;
    EXPECT_FALSE(Read(bytes, &read));
    const auto decoded = DecodeEnvelope(AsBytes(bytes), Limits{});
    ASSERT_TRUE(decoded.ok()) << decoded.failure().message;
    const auto generated = DecodeGenerated(AsBytes(bytes), Limits{}, HeapAllocator());
    ASSERT_TRUE(generated.ok());
    ExpectSame(decoded.value(), generated.value());
  }
}

TEST(StepCodec, LongerNumbersAreReadAsProtobufReadsThem) {
  for (const std::string& bytes : {kVersion + std::string("\x1a\x04\x08\x83\x80\x00", 6) + kAck,  // role 3
                                   kVersion + kSender + std::string("\xa2\x82\x00\x00", 4)}) {    // a tag
    Message read;
    EXPECT_TRUE(Read(bytes, &read));
    const auto generated = DecodeGenerated(AsBytes(bytes), Limits{}, HeapAllocator());
    ASSERT_TRUE(generated.ok());
    ExpectSame(read, generated.value());
  }
}

TEST(StepCodec, WhatProtobufRefusesIsNotRead) {
  for (const std::string& bytes :
       {kVersion + kSender + std::string("\xa2\x82\x80\x80\x80\x00\x00", 7),          // a tag of six bytes
        kVersion + std::string("\x1a\x82\x80\x80\x80\x80\x00\x08\x03", 9) + kAck}) {  // a length of six bytes
    Message read;
    EXPECT_FALSE(Read(bytes, &read));
    EXPECT_FALSE(DecodeEnvelope(AsBytes(bytes), Limits{}).ok());
  }
}

TEST(StepCodec, LimitsHoldAsForProtobuf) {
  Message leased = Widest(Ack{}), packed = Widest(Ack{});
  leased.leased = {{0, 1, 1, 0, 100}, {2, 1, 1, 0, 100}};
  packed.packed = {1, 2, 3};
  Limits parts, frames, size;
  parts.max_parts = 2;
  frames.max_payload_frames = 2;
  size.max_frame_bytes = 99;
  for (const auto& [message, limits] : std::vector<std::pair<Message, Limits>>{
           {WidestPush(3), parts}, {leased, frames}, {packed, frames}, {leased, size}}) {
    const std::string bytes = Generated(message);
    Message read;
    EXPECT_TRUE(Read(bytes, &read));
    read = Message();
    EXPECT_FALSE(Read(bytes, &read, limits));
    EXPECT_FALSE(DecodeEnvelope(AsBytes(bytes), limits).ok());
  }
}

}  // namespace
}  // namespace sluice::wire

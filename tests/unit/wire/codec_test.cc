// Tests wire/codec.h: every body arrives as it was sent, and bytes cut or damaged anywhere never crash.
// tests/golden has the bytes.
#include "wire/codec.h"

#include <gmock/gmock.h>

#include "base/pool_allocator.h"
#include "unit/encoded.h"
#include "unit/wire/expect_same.h"
#include "unit/wire/random_message.h"

namespace sluice::wire {
namespace {

using sluice::testing::Encoded;
using testing::ExpectSame;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::PayloadOf;
using testing::RandomMessages;

constexpr size_t kBodies = std::variant_size_v<BodyVariant>;

class EveryBody : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Wire, EveryBody, ::testing::Range(size_t{0}, kBodies),
                         [](const auto& info) { return std::string(BodyName(info.param)); });

TEST_P(EveryBody, ArrivesAsItWasSent) {
  RandomMessages random(GetParam() + 1);
  for (int i = 0; i < 300; ++i) {
    const Message message = random.Make(GetParam());
    ASSERT_EQ(message.body.index(), GetParam());
    const std::string bytes = Encoded(message);
    const auto decoded = DecodeEnvelope(AsBytes(bytes), Limits{});
    ASSERT_TRUE(decoded.ok()) << decoded.failure().message;
    ExpectSame(message, decoded.value());
    EXPECT_EQ(PayloadOf(decoded.value()),
              IsPayloadInline(message) ? PayloadOf(message) : std::vector<std::string>());
    EXPECT_TRUE(ValidatePayload(message, Limits{}).ok());
  }
}

Message PushOf(const std::vector<std::string>& payload) {
  Message message;
  message.body = Push{.parts = PartList<PushPart>(payload.size())};
  for (const std::string& frame : payload) message.payload.push_back(Frame::Copy(AsBytes(frame)));
  return message;
}

TEST(SmallPayload, TravelsInsideUpToItsBoundAndInTheOrderGiven) {
  const std::string half(kSmallPayload / 2, 'h');
  for (const std::vector<std::string>& payload :
       std::vector<std::vector<std::string>>{{"four"}, {""}, {"a", "", "bc"}, {half, half}}) {
    const Message message = PushOf(payload);
    EXPECT_TRUE(IsPayloadInline(message));
    const auto decoded = DecodeEnvelope(AsBytes(Encoded(message)), Limits{});
    ASSERT_TRUE(decoded.ok()) << decoded.failure().message;
    EXPECT_EQ(PayloadOf(decoded.value()), payload);
  }
  for (const std::vector<std::string>& payload : std::vector<std::vector<std::string>>{
           {}, {half, half, "x"}, std::vector<std::string>(kSmallPayload + 1)}) {
    const Message message = PushOf(payload);
    EXPECT_FALSE(IsPayloadInline(message));
    const auto decoded = DecodeEnvelope(AsBytes(Encoded(message)), Limits{});
    ASSERT_TRUE(decoded.ok()) << decoded.failure().message;
    EXPECT_THAT(decoded.value().payload, IsEmpty());
  }
}

TEST(Envelope, LiesInTheMemoryGivenAndSoDoesASmallPayload) {
  const auto memory = std::make_shared<PoolAllocator>();
  const Message message = PushOf({"four"});
  const auto encoded = [&] { return EncodeEnvelope(message, kProtocolVersion, memory); };
  const auto frame_address = [](const Frame& frame) { return reinterpret_cast<uintptr_t>(frame.data()); };
  const uintptr_t first = frame_address(encoded());
  const Frame kept = encoded();
  EXPECT_EQ(frame_address(kept), first) << "the block given back";
  const auto payload_address = [&] {
    return frame_address(DecodeEnvelope(kept.bytes(), Limits{}, memory).value().payload[0]);
  };
  EXPECT_EQ(payload_address(), payload_address());
  EXPECT_NE(payload_address(), first);
}

TEST(SmallPayload, LargeOnesDoNotBelongThere) {
  // One more field 8 of 256 bytes, by hand.
  const std::string bytes = Encoded(PushOf({"four"})) + "\x42\x80\x02" + std::string(256, 'x');
  EXPECT_THAT(DecodeEnvelope(AsBytes(bytes), Limits{}).failure().message,
              HasSubstr("260 bytes in 2 frames inside its envelope"));
}

TEST_P(EveryBody, CutOffAnywhereIsAnErrorOrAnotherValidMessage) {
  RandomMessages random(GetParam() + 100);
  for (int i = 0; i < 10; ++i) {
    const std::string bytes = Encoded(random.Make(GetParam()));
    for (size_t length = 0; length < bytes.size(); ++length) {
      // A copy of its own, so that AddressSanitizer sees a read beyond the end.
      const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
      const auto decoded = DecodeEnvelope(AsBytes({cut.data(), cut.size()}), Limits{});
      // The body comes last: without all of it there is none.
      EXPECT_FALSE(decoded.ok()) << length << " of " << bytes.size();
    }
  }
}

TEST_P(EveryBody, DamagedBytesNeverCrashAndWhatIsAcceptedIsStable) {
  RandomMessages random(GetParam() + 200);
  Rng rng(GetParam());
  int accepted = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = Encoded(random.Make(GetParam()));
    for (uint64_t n = 1 + rng.Below(4); n > 0; --n)
      bytes[rng.Below(bytes.size())] ^= static_cast<char>(1 + rng.Below(255));
    const auto decoded = DecodeEnvelope(AsBytes(bytes), Limits{});
    if (!decoded.ok()) {
      EXPECT_FALSE(decoded.failure().message.empty());
      continue;
    }
    ++accepted;
    const auto again = DecodeEnvelope(AsBytes(Encoded(decoded.value())), Limits{});
    ASSERT_TRUE(again.ok()) << again.failure().message;
    ExpectSame(decoded.value(), again.value());
  }
  EXPECT_GT(accepted, 0);
}

TEST(Envelope, AnotherVersionIsRefusedNamingBoth) {
  Message message;
  message.job = 11;
  message.id = 7;
  message.body = Heartbeat{};
  const std::string bytes = Encoded(message, 77);
  const auto decoded = DecodeEnvelope(AsBytes(bytes), Limits{});
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.failure().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(decoded.failure().message.find("version 77"), std::string::npos) << decoded.failure().message;
  EXPECT_NE(decoded.failure().message.find("version 1"), std::string::npos) << decoded.failure().message;
  const auto header = PeekHeader(AsBytes(bytes), Limits{});
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->version, 77u);
  EXPECT_EQ(header->job, 11u);
  EXPECT_EQ(header->id, 7u);
}

TEST(Envelope, TheVersionIsLookedAtBeforeAnythingElse) {
  std::string bytes("\x0d\x02\x00\x00\x00", 5);
  bytes += "what version 2 may bring";
  const auto decoded = DecodeEnvelope(AsBytes(bytes), Limits{});
  ASSERT_FALSE(decoded.ok());
  EXPECT_NE(decoded.failure().message.find("version 2"), std::string::npos) << decoded.failure().message;
}

TEST(Envelope, ForeignBytesAreNoEnvelope) {
  for (const std::string& bytes : {std::string(), std::string("\x0d\x01"), std::string("GET / HTTP/1.1\r\n"),
                                   std::string(1000, '\0'), std::string(1000, '\xff')}) {
    EXPECT_FALSE(DecodeEnvelope(AsBytes(bytes), Limits{}).ok());
    EXPECT_FALSE(PeekHeader(AsBytes(bytes), Limits{}).has_value());
  }
}

TEST(Envelope, AnUnknownBodyIsRefused) {
  const std::string header("\x0d\x01\x00\x00\x00\x1a\x02\x08\x03", 9);
  EXPECT_FALSE(DecodeEnvelope(AsBytes(header), Limits{}).ok()) << "no body";
  const std::string unknown = header + std::string("\xfa\x3f\x00", 3);  // field 1023
  const auto decoded = DecodeEnvelope(AsBytes(unknown), Limits{});
  ASSERT_FALSE(decoded.ok());
  EXPECT_NE(decoded.failure().message.find("no body"), std::string::npos) << decoded.failure().message;
  const std::string heartbeat = header + std::string("\x92\x01\x00", 3);  // field 18
  EXPECT_TRUE(DecodeEnvelope(AsBytes(heartbeat), Limits{}).ok());
}

}  // namespace
}  // namespace sluice::wire

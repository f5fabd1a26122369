#include "wire/codec.h"

#include <gmock/gmock.h>

#include <functional>
#include <limits>

#include "base/pool_allocator.h"
#include "unit/encoded.h"
#include "unit/wire/random_message.h"

namespace sluice::wire {
namespace {

using sluice::testing::Encoded;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RandomMessages;

constexpr size_t kBodies = std::variant_size_v<Body>;

void ExpectSame(const Message& a, const Message& b) {
  EXPECT_EQ(a.job, b.job);
  EXPECT_EQ(a.sender, b.sender);
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.in_reply_to, b.in_reply_to);
  EXPECT_EQ(a.trace_id, b.trace_id);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_TRUE(a.body == b.body) << Describe(a) << " / " << Describe(b);
}

std::vector<std::string> PayloadOf(const Message& message) {
  std::vector<std::string> payload;
  for (const Frame& frame : message.payload) payload.emplace_back(AsText(frame.bytes()));
  return payload;
}

// Why `message` does not arrive under `limits`; empty when it does.
std::string Refusal(const Message& message, const Limits& limits = {}) {
  const std::string bytes = Encoded(message);
  const auto decoded = DecodeEnvelope(AsBytes(bytes), limits);
  return decoded.ok() ? "" : decoded.failure().message;
}

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
              PayloadTravelsInside(message) ? PayloadOf(message) : std::vector<std::string>());
    EXPECT_TRUE(CheckPayload(message, Limits{}).ok());
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
    EXPECT_TRUE(PayloadTravelsInside(message));
    const auto decoded = DecodeEnvelope(AsBytes(Encoded(message)), Limits{});
    ASSERT_TRUE(decoded.ok()) << decoded.failure().message;
    EXPECT_EQ(PayloadOf(decoded.value()), payload);
  }
  for (const std::vector<std::string>& payload : std::vector<std::vector<std::string>>{
           {}, {half, half, "x"}, std::vector<std::string>(kSmallPayload + 1)}) {
    const Message message = PushOf(payload);
    EXPECT_FALSE(PayloadTravelsInside(message));
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
    return frame_address(DecodeEnvelope(kept.bytes(), Limits{}, memory).value().payload.at(0));
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

TEST(Envelope, StrangersBytesAreNoEnvelope) {
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

TEST(Envelope, ItsSizeIsLimited) {
  Message message;
  message.body = Leave{Leave::Outcome::kFailed, std::string(2000, 'x')};
  Limits limits;
  limits.max_envelope_bytes = Encoded(message).size();
  EXPECT_EQ(Refusal(message, limits), "");
  --limits.max_envelope_bytes;
  EXPECT_NE(Refusal(message, limits), "");
}

// Each list at its limit passes, one more does not.
TEST(Limits, HoldForEveryList) {
  Limits limits;
  limits.max_parts = 3;
  limits.max_keys = 4;
  limits.max_nodes = 5;
  const KeyEntry entry{.spec = {.shape = Shape{2}}};
  const std::vector<std::pair<std::function<Body(size_t)>, size_t>> cases = {
      {[](size_t n) { return Push{.parts = PartList<PushPart>(n)}; }, 3},
      {[](size_t n) { return Pull{.parts = PartList<PullPart>(n)}; }, 3},
      {[](size_t n) { return Values{.parts = PartList<ValuePart>(n)}; }, 3},
      {[](size_t n) { return Store{.parts = PartList<StorePart>(n)}; }, 3},
      {[&](size_t n) {
         KeyEntry sliced = entry;
         sliced.slices.resize(n);
         return KeyTable{{sliced}};
       },
       3},
      {[](size_t n) { return DeclareKeys{.keys = std::vector<KeySpec>(n)}; }, 4},
      {[&](size_t n) { return KeyTable{std::vector<KeyEntry>(n, entry)}; }, 4},
      {[&](size_t n) { return AnnounceKeys{std::vector<KeyEntry>(n, entry)}; }, 4},
      {[](size_t n) {
         Stats stats;
         for (size_t i = 0; i < n; ++i) stats.counters[std::to_string(i)] = i;
         return stats;
       },
       4},
      {[](size_t n) {
         SetOptimizer set;
         for (size_t i = 0; i < n; ++i) set.config.multipliers[std::to_string(i)] = {};
         return set;
       },
       4},
      {[](size_t n) {
         SetOptimizer set;
         set.config.schedule.steps.resize(n);
         return set;
       },
       4},
      {[](size_t n) {
         SetOptimizer set;
         for (size_t i = 0; i < n; ++i) set.first_rounds[static_cast<uint32_t>(i)] = i;
         return set;
       },
       4},
      {[](size_t n) { return Welcome{.roster = std::vector<NodeInfo>(n)}; }, 5},
      {[](size_t n) { return Membership{std::vector<NodeInfo>(n)}; }, 5},
      {[](size_t n) { return Register{.shard_addresses = std::vector<std::string>(n)}; }, 5},
      {[](size_t n) { return Membership{{NodeInfo{.shard_addresses = std::vector<std::string>(n)}}}; }, 5},
      {[](size_t n) { return Barrier{.ranks = std::vector<uint32_t>(n)}; }, 5}};
  for (const auto& [make, limit] : cases) {
    Message message;
    message.body = make(limit);
    EXPECT_EQ(Refusal(message, limits), "") << BodyName(message.body);
    message.body = make(limit + 1);
    EXPECT_NE(Refusal(message, limits).find(std::to_string(limit + 1)), std::string::npos)
        << BodyName(message.body) << ": " << Refusal(message, limits);
  }
}

TEST(Limits, HoldForEveryText) {
  Limits limits;
  limits.max_text_bytes = 10;
  const std::vector<std::function<Body(std::string)>> cases = {
      [](std::string t) { return Register{.identity = t}; },
      [](std::string t) { return Register{.host = t}; },
      [](std::string t) { return Register{.shard_addresses = {t}}; },
      [](std::string t) { return Welcome{.missing = t}; },
      [](std::string t) { return Membership{{NodeInfo{.host = t}}}; },
      [](std::string t) { return Membership{{NodeInfo{.shard_addresses = {t}}}}; },
      [](std::string t) { return DeclareKeys{.keys = {KeySpec{.name = t}}}; },
      [](std::string t) { return Barrier{.id = t}; },
      [](std::string t) { return BarrierWaiting{.id = t}; },
      [](std::string t) { return Barrier{.text = t}; },
      [](std::string t) { return BarrierWaiting{.missing = t}; },
      [](std::string t) { return BarrierReleased{t}; },
      [](std::string t) { return Leave{.message = t}; },
      [](std::string t) { return Stop{.message = t}; },
      [](std::string t) {
        return Stats{{{t, 1}}};
      },
      [](std::string t) {
        return SetOptimizer{.config = {.multipliers = {{t, {}}}}};
      },
      [](std::string t) { return ErrorReply{.message = t}; }};
  for (size_t i = 0; i < cases.size(); ++i) {
    Message message;
    message.body = cases[i](std::string(10, 'a'));
    EXPECT_EQ(Refusal(message, limits), "") << i;
    message.body = cases[i](std::string(11, 'a'));
    EXPECT_NE(Refusal(message, limits).find("11 bytes"), std::string::npos)
        << i << ": " << Refusal(message, limits);
  }
}

// An empty string takes two bytes on the wire and dozens in memory: a large envelope of them is refused
// before it is parsed.
TEST(Limits, ManyTinyElementsAreRefusedBeforeTheyTakeMemory) {
  Message message;
  message.body =
      KeyTable{{KeyEntry{.spec = {.name = "k", .shape = Shape{1}}, .slices = std::vector<Slice>(100000)}}};
  Limits limits;
  limits.max_keys = limits.max_nodes = limits.max_parts = 1000;
  EXPECT_NE(Refusal(message, limits).find("too many elements"), std::string::npos)
      << Refusal(message, limits);
}

TEST(Values, OutOfRangeAreRefused) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::vector<Body> bodies = {
      Push{.divisor = 0},
      Push{.divisor = std::numeric_limits<double>::quiet_NaN()},
      Push{.divisor = -kInf},
      Register{.role = static_cast<Role>(3)},
      Register{.wished_rank = -2},
      Welcome{.state = static_cast<Welcome::State>(2)},
      Membership{{NodeInfo{.state = static_cast<NodeState>(3)}}},
      DeclareKeys{.mode = static_cast<SyncMode>(2)},
      DeclareKeys{.keys = {KeySpec{.dtype = static_cast<DType>(7)}}},
      DeclareKeys{.keys = {KeySpec{.dtype = DType::kFloat64, .shape = Shape{int64_t{1} << 61}}}},
      KeyTable{{KeyEntry{.part_elements = -1}}},
      KeyTable{{KeyEntry{.spec = {.shape = Shape{4}}, .slices = {{0, -1, 1}}}}},
      KeyTable{{KeyEntry{.spec = {.shape = Shape{4}}, .slices = {{0, 0, -1}}}}},
      KeyTable{{KeyEntry{.spec = {.shape = Shape{4}}, .slices = {{0, 2, 3}}}}},
      KeyTable{{KeyEntry{.spec = {.shape = Shape{4}}, .slices = {{0, 5, INT64_MAX}}}}},
      Pull{.want = static_cast<Pull::Want>(2)},
      Store{.purpose = static_cast<Store::Purpose>(9)},
      Barrier{.group = static_cast<Barrier::Group>(4)},
      DeclareKeys{.keys = {KeySpec{.store = 65536}}},
      AwaitOptimizer{65536},
      SetOptimizer{.store = 65536},
      SetOptimizer{.config = {.kind = static_cast<OptimizerKind>(10)}},
      SetOptimizer{.config = {.learning_rate = kInf}},
      SetOptimizer{.config = {.rho = kInf}},
      SetOptimizer{.config = {.lambda1 = kInf}},
      SetOptimizer{.config = {.beta = kInf}},
      SetOptimizer{.config = {.lower_bound = kInf}},
      SetOptimizer{.config = {.upper_bound = -kInf}},
      SetOptimizer{.config = {.wd_lh = kInf}},
      SetOptimizer{.config = {.epsilon = std::numeric_limits<double>::quiet_NaN()}},
      SetOptimizer{.config = {.schedule = {.kind = static_cast<LrScheduleKind>(5)}}},
      SetOptimizer{.config = {.schedule = {.final_lr = kInf}}},
      SetOptimizer{.config = {.multipliers = {{"w", {1, kInf}}}}},
      Leave{.outcome = static_cast<Leave::Outcome>(2)},
      Stop{.reason = static_cast<Stop::Reason>(255)},
      ErrorReply{.code = static_cast<ErrorCode>(11)}};
  for (size_t i = 0; i < bodies.size(); ++i) {
    Message message;
    message.body = bodies[i];
    EXPECT_NE(Refusal(message).find(std::string(BodyName(message.body)) + " refused"), std::string::npos)
        << i;
  }
  Message message;
  message.sender.role = static_cast<Role>(3);
  EXPECT_NE(Refusal(message), "");
}

// A DeclareKeys (field 22) of one key with these extents, written by hand: structs cannot hold what is no
// shape.
std::string DeclarationOf(const std::string& packed_dims) {
  const auto field = [](const std::string& tag, const std::string& content) {
    return tag + static_cast<char>(content.size()) + content;
  };
  const std::string spec = field("\x12", "k") + "\x18\x01" + field("\x22", packed_dims);
  const std::string header("\x0d\x01\x00\x00\x00\x1a\x02\x08\x03", 9);
  return header + field("\xb2\x01", "\x08\x01" + field("\x12", spec));
}

TEST(Values, ShapesThatAreNoneAreRefused) {
  const auto refusal = [](const std::string& dims) {
    const auto decoded = DecodeEnvelope(AsBytes(DeclarationOf(dims)), Limits{});
    return decoded.ok() ? "" : decoded.failure().message;
  };
  EXPECT_EQ(refusal("\x03\x05"), "");
  EXPECT_EQ(refusal(std::string(8, '\x01')), "");
  EXPECT_NE(refusal(std::string(9, '\x01')).find("9 axes"), std::string::npos);
  const std::string minus_one = std::string(9, '\xff') + '\x01', two_to_62 = std::string(8, '\x80') + '\x40';
  EXPECT_NE(refusal(minus_one).find("negative"), std::string::npos);
  EXPECT_NE(refusal(two_to_62 + two_to_62).find("2^63-1"), std::string::npos);
}

Message WithPayload(Body body, const std::vector<size_t>& sizes) {
  Message message;
  message.body = std::move(body);
  for (const size_t size : sizes) message.payload.push_back(Frame::Copy(AsBytes(std::string(size, 'p'))));
  return message;
}

TEST(CheckPayload, FramesMustBelongToTheBody) {
  const Push push{.parts = PartList<PushPart>(2)};
  EXPECT_TRUE(CheckPayload(WithPayload(push, {4, 0}), Limits{}).ok());
  const Status one = CheckPayload(WithPayload(push, {4}), Limits{});
  ASSERT_FALSE(one.ok());
  EXPECT_EQ(one.failure().message, "Push came with 1 payload frames; 2 belong to it");
  EXPECT_FALSE(CheckPayload(WithPayload(Store{.parts = PartList<StorePart>(1)}, {}), Limits{}).ok());
  EXPECT_TRUE(CheckPayload(WithPayload(Values{true, PartList<ValuePart>(1)}, {8}), Limits{}).ok());
  EXPECT_TRUE(CheckPayload(WithPayload(Values{false, PartList<ValuePart>(1)}, {}), Limits{}).ok());
  EXPECT_FALSE(CheckPayload(WithPayload(Values{false, PartList<ValuePart>(1)}, {8}), Limits{}).ok());
  EXPECT_FALSE(CheckPayload(WithPayload(Heartbeat{}, {1}), Limits{}).ok());
  EXPECT_TRUE(CheckPayload(WithPayload(Ack{}, {}), Limits{}).ok());
}

TEST(CheckPayload, SizesAreLimited) {
  const Push push{.parts = PartList<PushPart>(3)};
  Limits limits;
  limits.max_frame_bytes = 10;
  limits.max_message_bytes = 25;
  EXPECT_TRUE(CheckPayload(WithPayload(push, {10, 10, 5}), limits).ok());
  EXPECT_FALSE(CheckPayload(WithPayload(push, {10, 10, 6}), limits).ok()) << "message";
  EXPECT_FALSE(CheckPayload(WithPayload(push, {11, 1, 1}), limits).ok()) << "frame";
  limits.max_payload_frames = 2;
  EXPECT_FALSE(CheckPayload(WithPayload(push, {1, 1, 1}), limits).ok()) << "frames";
}

}  // namespace
}  // namespace sluice::wire

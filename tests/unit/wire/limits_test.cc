// What a decoder takes, and what it refuses: sizes, lengths, values out of range, frames that do not belong.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "unit/encoded.h"
#include "wire/codec.h"

namespace sluice::wire {
namespace {

using sluice::testing::Encoded;

// Why `message` does not arrive under `limits`; empty when it does.
std::string Refusal(const Message& message, const Limits& limits = {}) {
  const std::string bytes = Encoded(message);
  const auto decoded = DecodeEnvelope(AsBytes(bytes), limits);
  return decoded.ok() ? "" : decoded.failure().message;
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

// Makes bodies with a list of n elements, each with its limit in the test below.
std::vector<std::pair<std::function<Body(size_t)>, size_t>> BodiesWithLists() {
  const KeyEntry entry{.spec = {.shape = Shape{2}}};
  return {
      {[](size_t n) { return Push{.parts = PartList<PushPart>(n)}; }, 3},
      {[](size_t n) { return Pull{.parts = PartList<PullPart>(n)}; }, 3},
      {[](size_t n) { return Values{.parts = PartList<ValuePart>(n)}; }, 3},
      {[](size_t n) { return Store{.parts = PartList<StorePart>(n)}; }, 3},
      {[entry](size_t n) {
         KeyEntry sliced = entry;
         sliced.slices.resize(n);
         return KeyTable{{sliced}};
       },
       3},
      {[](size_t n) { return DeclareKeys{.keys = std::vector<KeySpec>(n)}; }, 4},
      {[entry](size_t n) { return KeyTable{std::vector<KeyEntry>(n, entry)}; }, 4},
      {[entry](size_t n) { return AnnounceKeys{std::vector<KeyEntry>(n, entry)}; }, 4},
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
      {[](size_t n) {  // a run, which is one entry on the wire
         SetOptimizer set;
         for (size_t i = 0; i < n; ++i) set.first_rounds[static_cast<uint32_t>(i)] = 9;
         return set;
       },
       4},
      {[](size_t n) { return Welcome{.roster = std::vector<NodeInfo>(n)}; }, 5},
      {[](size_t n) { return Membership{std::vector<NodeInfo>(n)}; }, 5},
      {[](size_t n) { return Register{.shard_addresses = std::vector<std::string>(n)}; }, 5},
      {[](size_t n) { return Membership{{NodeInfo{.shard_addresses = std::vector<std::string>(n)}}}; }, 5},
      {[](size_t n) { return Barrier{.ranks = std::vector<uint32_t>(n)}; }, 5}};
}

// Each list at its limit passes, one more does not.
TEST(Limits, HoldForEveryList) {
  Limits limits;
  limits.max_parts = 3;
  limits.max_keys = limits.max_set_keys = 4;
  limits.max_nodes = 5;
  for (const auto& [make, limit] : BodiesWithLists()) {
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
      [](std::string t) { return StillWaiting{.id = t}; },
      [](std::string t) { return Barrier{.text = t}; },
      [](std::string t) { return StillWaiting{.missing = t}; },
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
      Register{.requested_rank = -2},
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
      Pull{.want = static_cast<Pull::Want>(3)},
      Store{.purpose = static_cast<Store::Purpose>(9)},
      Barrier{.group = static_cast<Barrier::Group>(4)},
      DeclareKeys{.keys = {KeySpec{.store = 65536}}},
      AwaitOptimizer{65536},
      SetOptimizer{.store = 65536},
      SetOptimizer{.config = {.kind = static_cast<OptimizerKind>(OptimizerNames().size())}},
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

// Columns of parts that are not as long as one another.
TEST(Values, ColumnsOfOtherLengthsAreRefused) {
  Message message;
  message.body = Push{.parts = {{{1, 3}, 5, true}, {{2, 4}, 6, false}}};
  const std::string keys("\x0a\x02\x01\x02", 4), parts("\x12\x02\x03\x04", 4), rounds("\x22\x02\x05\x06", 4);
  const auto refusal = [&](const std::string& column, char as) {
    std::string bytes = Encoded(message);
    const size_t at = bytes.find(column);
    EXPECT_NE(at, std::string::npos);
    bytes[at] = as;  // another field, which then has both columns' entries
    const auto decoded = DecodeEnvelope(AsBytes(bytes), Limits{});
    return decoded.ok() ? "" : decoded.failure().message;
  };
  EXPECT_EQ(refusal(keys, keys[0]), "");
  EXPECT_NE(refusal(parts, keys[0]).find("for 4 parts"), std::string::npos);
  EXPECT_NE(refusal(rounds, parts[0]).find("4 part numbers for 2 parts"), std::string::npos);
  EXPECT_NE(refusal(rounds, 0x1a).find("a push names slots"), std::string::npos);
  EXPECT_NE(refusal(keys, parts[0]).find("parts"), std::string::npos);
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

TEST(ValidatePayload, FramesMustBelongToTheBody) {
  const Push push{.parts = PartList<PushPart>(2)};
  EXPECT_TRUE(ValidatePayload(WithPayload(push, {4, 0}), Limits{}).ok());
  const Status one = ValidatePayload(WithPayload(push, {4}), Limits{});
  ASSERT_FALSE(one.ok());
  EXPECT_EQ(one.failure().message, "Push came with 1 payload frames; 2 belong to it");
  EXPECT_FALSE(ValidatePayload(WithPayload(Store{.parts = PartList<StorePart>(1)}, {}), Limits{}).ok());
  EXPECT_TRUE(ValidatePayload(WithPayload(Values{true, PartList<ValuePart>(1)}, {8}), Limits{}).ok());
  EXPECT_TRUE(ValidatePayload(WithPayload(Values{false, PartList<ValuePart>(1)}, {}), Limits{}).ok());
  EXPECT_FALSE(ValidatePayload(WithPayload(Values{false, PartList<ValuePart>(1)}, {8}), Limits{}).ok());
  EXPECT_FALSE(ValidatePayload(WithPayload(Heartbeat{}, {1}), Limits{}).ok());
  EXPECT_TRUE(ValidatePayload(WithPayload(Ack{}, {}), Limits{}).ok());
}

TEST(ValidatePayload, SizesAreLimited) {
  const Push push{.parts = PartList<PushPart>(3)};
  Limits limits;
  limits.max_frame_bytes = 10;
  limits.max_message_bytes = 25;
  EXPECT_TRUE(ValidatePayload(WithPayload(push, {10, 10, 5}), limits).ok());
  EXPECT_FALSE(ValidatePayload(WithPayload(push, {10, 10, 6}), limits).ok()) << "message";
  EXPECT_FALSE(ValidatePayload(WithPayload(push, {11, 1, 1}), limits).ok()) << "frame";
  limits.max_payload_frames = 2;
  EXPECT_FALSE(ValidatePayload(WithPayload(push, {1, 1, 1}), limits).ok()) << "frames";
}

TEST(LimitsOfShards, LeasesAreBoundedAndTheMessageIsNamed) {
  Message message;
  message.body = Push{.parts = PartList<PushPart>(1)};
  message.leased = {{.index = 0, .lease = 1, .segment = 1, .offset = 0, .length = kMostFrameBytes}};
  EXPECT_TRUE(DecodeEnvelope(EncodeEnvelope(message).bytes(), LimitsOfShards()).ok());
  message.leased[0].length += 1;
  const auto refused = DecodeEnvelope(EncodeEnvelope(message).bytes(), LimitsOfShards());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().message,
            "Push refused: a leased payload frame has 8388609 bytes; at most 8388608 are accepted");
}

}  // namespace
}  // namespace sluice::wire

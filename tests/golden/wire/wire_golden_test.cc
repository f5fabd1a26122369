// The bytes of every message, as protoc writes them from the *.textproto files beside this one (encode.sh).
// They hold the format: when this test fails, either put the format back or raise wire::kProtocolVersion.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "unit/encoded.h"
#include "wire/codec.h"

namespace sluice::wire {
namespace {

using sluice::testing::Encoded;

OptimizerConfig GoldenOptimizer() {
  OptimizerConfig config;
  config.kind = OptimizerKind::kSignum;
  config.learning_rate = 0.125;
  config.momentum = 0.5;
  config.wd = 0.25;
  config.clip_gradient = 2;
  config.rescale_grad = 4;
  config.beta1 = 0.75;
  config.beta2 = 0.875;
  config.epsilon = 0.0625;
  config.rho = 0.375;
  config.centered = true;
  config.lambda1 = 0.1875;
  config.beta = 6;
  config.lower_bound = 8;
  config.upper_bound = 16;
  config.wd_lh = 0.3125;
  config.multi_precision = true;
  config.normalize_by_samples = true;
  config.multipliers = {{"b", {2, 0}}};
  LrSchedule& schedule = config.schedule;
  schedule.kind = LrScheduleKind::kMultiFactor;
  schedule.factor = 0.5;
  schedule.step = 10;
  schedule.stop_factor_lr = 0.03125;
  schedule.steps = {100, 200};
  schedule.max_update = 1000;
  schedule.final_lr = 0.015625;
  schedule.power = 3;
  schedule.warmup_steps = 5;
  schedule.warmup_begin_lr = 0.5;
  schedule.warmup_mode = WarmupMode::kConstant;
  return config;
}

std::vector<Body> GoldenBodies() {
  const NodeInfo node{Role::kServer, 1, 99, NodeState::kAlive, "a", 12, {"tcp://[::1]:7"}};
  const NodeInfo dead{Role::kWorker, 0, 0, NodeState::kDead, "", 0, {}};
  const KeyEntry entry{8, {"w", DType::kFloat32, Shape{10}}, SyncMode::kSync, {{0, 0, 6}, {1, 6, 4}}, 262144};
  return {
      Register{Role::kServer,
               "place-1",
               -1,
               "node.example",
               4321,
               2,
               3,
               {"tcp://10.0.0.1:9000", "ipc:///tmp/s"},
               2,
               8,
               1500},
      Welcome{Welcome::State::kComplete, 4, "worker 2", {node}, 3},
      Heartbeat{true},
      HeartbeatAck{true},
      GetMembership{},
      Membership{{node, dead}},
      DeclareKeys{SyncMode::kAsync,
                  {{int64_t{-3}, DType::kFloat16, Shape{64, 1200}},
                   {"fc1.weight", DType::kInt64, Shape{}, 4},
                   {"embedding", DType::kFloat32, Shape{10, 4}, 0, RowInit{RowFill::kNormal, 0.5, 2, 300}}}},
      KeyTable{{entry}},
      AnnounceKeys{{entry}},
      Push{64, 128, {{{1, 2}, 3, true}, {{4, 0}, 1, false}}, Compression::k2Bit, Compression::kFloat16},
      Pull{Pull::Want::kVersion, {{{1, 2}, 1, 9}}, Compression::kBFloat16},
      Values{true, {{{1, 2}, 1, 9}}, Compression::kFloat16},
      Store{Store::Purpose::kState, {{{1, 2}, 1, 9}}},
      SetOptimizer{GoldenOptimizer(), {{3, 12}}, 2},
      Barrier{"start", Barrier::Group::kRanks, {0, 300}, "go on"},
      StillWaiting{"start", "worker 2"},
      BarrierReleased{"go on"},
      Leave{Leave::Outcome::kFailed, "out of memory"},
      Stop{Stop::Reason::kFinished, "done", {node, dead}},
      GetStats{},
      Stats{{{"pushes", 5}, {"rounds", UINT64_MAX}}},
      Ack{},
      ErrorReply{ErrorCode::kNotFound, "no key 3"},
      AwaitOptimizer{300},
      PullRows{{{{1, 2}, 1, 9}, {{300, 4}, 0, 0}}},
      GetRowIds{{300, 4}, 70000},
      RowIds{70002, {5, uint64_t{1} << 40}},
      GetMemory{},
      MemoryOffer{"name", "key", "none here"}};
}

std::string Hex(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const unsigned char c : bytes) (hex += kDigits[c >> 4]) += kDigits[c & 15];
  return hex;
}

class Golden : public ::testing::TestWithParam<Body> {};
INSTANTIATE_TEST_SUITE_P(Wire, Golden, ::testing::ValuesIn(GoldenBodies()),
                         [](const auto& info) { return std::string(BodyName(info.param)); });

std::string GoldenBytes(std::string_view name) {
  std::ifstream file(std::string(GOLDEN_FOLDER "/") + std::string(name) + ".bin", std::ios::binary);
  EXPECT_TRUE(file.is_open()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

Message GoldenMessage(Body body) {
  Message message;
  message.job = 0x1122334455667788;
  message.sender = {Role::kWorker, 3, 0xa1b2c3d4e5f60718};
  message.id = 300;
  message.in_reply_to = 7;
  message.trace_id = 0x0102030405060708;
  message.epoch = 5;
  message.body = std::move(body);
  return message;
}

TEST_P(Golden, BytesAreThoseOfTheContract) {
  const std::string golden = GoldenBytes(BodyName(GetParam()));
  const Message message = GoldenMessage(GetParam());
  EXPECT_EQ(Hex(Encoded(message)), Hex(golden));

  const auto decoded = DecodeEnvelope(AsBytes(golden), Limits{});
  ASSERT_TRUE(decoded.ok()) << decoded.failure().message;
  EXPECT_TRUE(decoded.value().body == message.body);
  EXPECT_EQ(decoded.value().job, message.job);
  EXPECT_EQ(decoded.value().sender, message.sender);
  EXPECT_EQ(decoded.value().id, message.id);
  EXPECT_EQ(decoded.value().in_reply_to, message.in_reply_to);
  EXPECT_EQ(decoded.value().trace_id, message.trace_id);
  EXPECT_EQ(decoded.value().epoch, message.epoch);
}

TEST(GoldenSmallPayload, BytesAreThoseOfTheContract) {
  Message message = GoldenMessage(Push{64, 128, {{{1, 2}, 3, true}, {{4, 0}, 1, false}}});
  message.payload = {Frame::Copy(AsBytes("four")), Frame::Copy(AsBytes(std::string_view("\xff\0", 2)))};
  const std::string golden = GoldenBytes("SmallPayload");
  EXPECT_EQ(Hex(Encoded(message)), Hex(golden));
  const auto decoded = DecodeEnvelope(AsBytes(golden), Limits{});
  ASSERT_TRUE(decoded.ok()) << decoded.failure().message;
  ASSERT_EQ(decoded.value().payload.size(), 2u);
  EXPECT_EQ(AsText(decoded.value().payload[0].bytes()), "four");
  EXPECT_EQ(AsText(decoded.value().payload[1].bytes()), std::string_view("\xff\0", 2));
}

TEST(GoldenLeasedPayload, BytesAreThoseOfTheContract) {
  Message message = GoldenMessage(Push{64, 128, {{{1, 2}, 3, true}, {{4, 0}, 1, false}}});
  message.leased = {{0, 300, 5, uint64_t{1} << 33, 4096}, {1, 301, 6, 0, 70000}};
  const std::string golden = GoldenBytes("LeasedPayload");
  EXPECT_EQ(Hex(Encoded(message)), Hex(golden));
  const auto decoded = DecodeEnvelope(AsBytes(golden), Limits{});
  ASSERT_TRUE(decoded.ok()) << decoded.failure().message;
  EXPECT_TRUE(decoded.value().leased == message.leased);
}

TEST(GoldenPackedPayload, BytesAreThoseOfTheContract) {
  Message message = GoldenMessage(Push{64, 128, {{{1, 2}, 3, true}, {{4, 0}, 1, false}}});
  message.packed = {4096, 300};
  const std::string golden = GoldenBytes("PackedPayload");
  EXPECT_EQ(Hex(Encoded(message)), Hex(golden));
  const auto decoded = DecodeEnvelope(AsBytes(golden), Limits{});
  ASSERT_TRUE(decoded.ok()) << decoded.failure().message;
  EXPECT_TRUE(decoded.value().packed == message.packed);
}

TEST(GoldenSet, HasEveryBody) {
  EXPECT_EQ(GoldenBodies().size(), std::variant_size_v<BodyVariant>);
}

}  // namespace
}  // namespace sluice::wire

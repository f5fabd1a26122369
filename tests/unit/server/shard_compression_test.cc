// Compressed pushes at a shard: each frame as its sender chose, bad ones refused before anything changes.
#include <gmock/gmock.h>

#include <limits>

#include "compression/codec.h"
#include "unit/server/shard_harness.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> Encoded(const GradientCompression& how, const std::vector<float>& gradient) {
  std::vector<float> residual(gradient.size());
  std::vector<std::byte> frame(compression::EncodedBytes(how, DType::kFloat32, gradient.size()));
  compression::Encode(how, DType::kFloat32, reinterpret_cast<const std::byte*>(gradient.data()),
                      gradient.size(), residual.data(), frame.data());
  return frame;
}

// Pushes a frame of the key's only part.
std::vector<Sent> PushFrame(ShardHarness& harness, uint32_t worker, uint32_t key, uint64_t round,
                            Compression type, const std::vector<std::byte>& frame) {
  return harness.Deliver(worker, wire::Push{.parts = {{{key, 0}, round}}, .compression = type},
                         {FrameOf(frame, 1)});
}

std::vector<Sent> Push(ShardHarness& harness, uint32_t worker, uint32_t key, uint64_t round,
                       const GradientCompression& how, const std::vector<float>& gradient) {
  return PushFrame(harness, worker, key, round, how.type, Encoded(how, gradient));
}

TEST(ShardCompression, WorkersOfARoundMayEachHaveTheirOwn) {
  constexpr size_t kElements = 5000;
  ShardHarness harness(6);
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>(kElements, 100));
  const std::vector<float> gradient(kElements, 2);
  Push(harness, 5, key, 1, {.type = Compression::kTopK, .ratio = 1}, gradient);
  Push(harness, 2, key, 1, {.type = Compression::k1Bit}, gradient);
  Push(harness, 0, key, 1, {}, gradient);
  Push(harness, 4, key, 1, {.type = Compression::kBFloat16}, gradient);
  Push(harness, 3, key, 1, {.type = Compression::kFloat16}, gradient);
  EXPECT_THAT(harness.Weight<float>(key), Each(100));
  Push(harness, 1, key, 1, {.type = Compression::k2Bit, .threshold = 0.25f}, gradient);
  EXPECT_THAT(harness.Weight<float>(key), Each(100 + 4 * 2 + 1 + 0.25f));
}

TEST(ShardCompression, AnAsyncPushAppliesAtOnce) {
  ShardHarness harness(2);
  ASSERT_TRUE(harness.shard.SetOptimizer(Accumulate(), {}).ok());
  const uint32_t key = harness.AddKey(std::vector<float>(100), wire::SyncMode::kAsync);
  Push(harness, 1, key, 1, {.type = Compression::k2Bit}, std::vector<float>(100, 2));
  EXPECT_THAT(harness.Weight<float>(key), Each(0.5f));
}

TEST(ShardCompression, ABadFrameIsRefusedAndTheRoundStaysOpen) {
  ShardHarness harness(1);
  const uint32_t key = harness.AddKey(std::vector<float>(18, 7));
  std::vector<std::byte> both = Encoded({.type = Compression::k2Bit}, std::vector<float>(18, 1));
  both[6] = both[4];  // plus and minus
  std::vector<std::byte> beyond = Encoded({.type = Compression::kTopK}, std::vector<float>(18, 1));
  beyond[0] = std::byte{18};
  const std::vector<std::byte> whole = Encoded({.type = Compression::kFloat16}, std::vector<float>(18, 1));
  const std::pair<Compression, std::vector<std::byte>> bad[] = {
      {Compression::k2Bit, both}, {Compression::kTopK, beyond}, {Compression::k1Bit, both},
      {Compression::k2Bit, {}},   {Compression::kNone, whole},  {Compression::kTopK, whole}};
  for (const auto& [type, frame] : bad) {
    const auto answers = PushFrame(harness, 0, key, 1, type, frame);
    ASSERT_TRUE(answers.at(0).Is<wire::ErrorReply>()) << Name(type);
    EXPECT_THAT(answers[0].As<wire::ErrorReply>().message, HasSubstr("push of key 0, part 0: "));
  }
  EXPECT_EQ(harness.Counter("rejected"), std::size(bad));
  EXPECT_THAT(harness.Versions(key), ElementsAre(0));
  EXPECT_THAT(harness.Weight<float>(key), Each(7));
  PushFrame(harness, 0, key, 1, Compression::kFloat16, whole);
  EXPECT_THAT(harness.Weight<float>(key), Each(1));
}

TEST(ShardCompression, WeightsComeAsTheyAreAskedFor) {
  ShardHarness harness(1);
  const uint32_t key = harness.AddKey(std::vector<float>(100, 1.0001f));
  const auto pull = [&](Compression as) {
    return harness.Deliver(0, wire::Pull{.parts = {{{key, 0}}}, .values = as});
  };
  for (const auto& [as, bytes, expected] :
       {std::tuple(Compression::kNone, 400, 1.0001f), std::tuple(Compression::kFloat16, 200, 1.0f),
        std::tuple(Compression::kBFloat16, 200, 1.0f)}) {
    const auto answers = pull(as);
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0].As<wire::Values>().compression, as);
    const Frame& frame = answers[0].message.payload[0];
    ASSERT_EQ(frame.size(), static_cast<size_t>(bytes));
    std::vector<float> values(100);
    compression::Decode({frame.data(), frame.size(), as}, DType::kFloat32, 0, 100, values.data());
    EXPECT_THAT(values, Each(expected)) << Name(as);
  }
  const auto pushed =
      harness.Deliver(0, wire::Push{.parts = {{{key, 0}, 1, true}}, .values = Compression::kFloat16},
                      {FrameOf(std::vector<float>(100, 3))});
  EXPECT_EQ(pushed.at(0).message.payload[0].size(), 200u);
  EXPECT_TRUE(pull(Compression::kTopK).at(0).Is<wire::ErrorReply>());
  const auto bad = harness.Deliver(0, wire::Push{.parts = {{{key, 0}, 2}}, .values = Compression::k2Bit},
                                   {FrameOf(std::vector<float>(100, 3))});
  EXPECT_THAT(bad.at(0).As<wire::ErrorReply>().message, HasSubstr("float32 weights do not travel as 2bit"));
}

// The values are more than a slow link passes soon, so the workers are answered in turn.
TEST(ShardCompression, AnswersToPushesOfFewBitsAreNoLargerThanOthers) {
  constexpr size_t kPart = server::ReplyBatcher::kLeastMessageBytes / sizeof(float), kParts = 4;
  const std::vector<float> gradient(kPart * kParts, 1);
  ShardHarness harness(2);
  const uint32_t key = harness.AddKey(gradient, wire::SyncMode::kSync, kPart);
  wire::Push push{.compression = Compression::k2Bit};
  wire::Frames frames;
  for (uint32_t part = 0; part < kParts; ++part) {
    push.parts.push_back({{key, part}, 1, true});
    frames.push_back(FrameOf(Encoded({.type = Compression::k2Bit}, std::vector<float>(kPart, 1)), 1));
  }
  harness.Deliver(0, push, frames);
  const auto answers = harness.Deliver(1, push, frames);
  ASSERT_EQ(answers.size(), 2 * kParts);
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].As<wire::Values>().parts.size(), 1u);
    EXPECT_EQ(answers[i].to, ShardHarness::PeerOf(i % 2));
  }
  harness.Push(0, key, 2, gradient, {.want_value = true});
  EXPECT_EQ(harness.Push(1, key, 2, gradient, {.want_value = true}).size(), 2u);
}

TEST(ShardCompression, AKeyOfAnotherTypeTakesNone) {
  ShardHarness harness(1);
  const uint32_t key = harness.AddKey(std::vector<double>{7});
  const auto answers = PushFrame(harness, 0, key, 1, Compression::kFloat16, std::vector<std::byte>(2));
  ASSERT_TRUE(answers.at(0).Is<wire::ErrorReply>());
  EXPECT_THAT(answers[0].As<wire::ErrorReply>().message, HasSubstr("float64 key does not travel as fp16"));
}

}  // namespace
}  // namespace sluice::testing

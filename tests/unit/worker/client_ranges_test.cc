// Operations on ranges of a key's parts: several of them are one push of the key, in one round.
#include <gmock/gmock.h>

#include "unit/worker/client_harness.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using worker::OpKind;

// Key 0 has four parts of two elements, two on each shard.
class ClientRanges : public ClientHarness {
 protected:
  ClientRanges() { AddKey(EntryOf(0, {0, 0, 1, 1}, 2)); }

  // Submits a push_pull of some parts.
  void PushPullRange(worker::PartRange range, bool begins_round, const Frame& source, Outcome* outcome) {
    auto op = PushPullOf(0, source, Into(&value_), outcome->Record());
    op->range = range;
    op->begins_round = begins_round;
    client.Submit(now, std::move(op), network);
  }
  void AnswerAll(const std::vector<Sent>& requests, uint64_t round, float value) {
    for (const Sent& request : requests) {
      for (const wire::PushPart& part : request.As<wire::Push>().parts)
        Answer(request, part.ref, round, value, 2);
    }
  }
  static std::vector<std::pair<uint32_t, uint64_t>> PartsOf(const std::vector<Sent>& requests) {
    std::vector<std::pair<uint32_t, uint64_t>> parts;  // number, round
    for (const Sent& request : requests) {
      for (const wire::PushPart& part : request.As<wire::Push>().parts)
        parts.emplace_back(part.ref.part, part.round);
    }
    return parts;
  }

  std::vector<float> value_ = std::vector<float>(8, -1);
};
using P = std::pair<uint32_t, uint64_t>;

TEST_F(ClientRanges, ArePushedInOneRoundAndEachEndsByItself) {
  Outcome last, first;
  PushPullRange({2, 4}, true, FrameOf({5, 6, 7, 8}), &last);
  const auto to_last = ToShards();
  EXPECT_THAT(PartsOf(to_last), ElementsAre(P{2, 1}, P{3, 1}));
  PushPullRange({0, 2}, false, FrameOf({1, 2, 3, 4}), &first);
  const auto to_first = ToShards();
  EXPECT_THAT(PartsOf(to_first), ElementsAre(P{0, 1}, P{1, 1}));
  EXPECT_EQ(client.keys().PushedRound(0), 1u);
  AnswerAll(to_first, 1, 10);
  EXPECT_TRUE(first.Succeeded());
  EXPECT_EQ(last.calls, 0);
  EXPECT_THAT(value_, ElementsAre(10, 10, 10, 10, -1, -1, -1, -1));
  AnswerAll(to_last, 1, 10);
  EXPECT_TRUE(last.Succeeded());
  EXPECT_THAT(value_, Each(10));
}

TEST_F(ClientRanges, SendTheirOwnBytes) {
  Outcome outcome;
  PushPullRange({1, 3}, true, FrameOf({3, 4, 5, 6}), &outcome);
  std::vector<float> sent;
  for (const Sent& request : ToShards()) {
    for (const Frame& frame : request.message.payload) {
      const auto* floats = reinterpret_cast<const float*>(frame.data());
      sent.insert(sent.end(), floats, floats + frame.size() / sizeof(float));
    }
  }
  EXPECT_THAT(sent, ElementsAre(3, 4, 5, 6));
}

TEST_F(ClientRanges, ThatDoNotFitAreRefused) {
  Outcome beyond, longer;
  PushPullRange({4, 6}, true, FrameOf({1, 2}), &beyond);
  EXPECT_THAT(beyond.Error(), HasSubstr("it is for the parts from 4 to before 6, the key has 4"));
  PushPullRange({0, 1}, true, FrameOf({1, 2, 3}), &longer);
  EXPECT_THAT(longer.Error(), HasSubstr("12 bytes were given, the key has 8"));
  EXPECT_THAT(ToShards(), IsEmpty());
  EXPECT_EQ(client.keys().PushedRound(0), 0u);
}

// The rest of a push cannot be sent: its round never closes, and the program has to hear of it.
TEST_F(ClientRanges, OfAPushThatFailsHalfwayEndAllThatNeedsItsRound) {
  Outcome begun, later;
  PushPullRange({0, 2}, true, FrameOf({1, 2, 3, 4}), &begun);
  client.FailLastRound(now, 0, {ErrorCode::kUnavailable, "gpu(0) stopped"}, network);
  EXPECT_THAT(begun.Error(), HasSubstr("round 1 cannot close, its push has failed: gpu(0) stopped"));
  PushPullRange({0, 4}, true, FrameOf(std::vector<float>(8)), &later);
  EXPECT_THAT(later.Error(), HasSubstr("round 1 cannot close, its push has failed: gpu(0) stopped"));
}

}  // namespace
}  // namespace sluice::testing

// What a connection to one shard sends, holds back, repeats and remembers.
#include "worker/connection/shard_connection.h"

#include <gmock/gmock.h>

#include "unit/recording_network.h"

namespace sluice::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using worker::OpKind;
using worker::PartOp;
using worker::PartOps;

constexpr size_t kPart = 1024;
constexpr uint64_t kWindow = 4 * kPart;  // a message has at most half of it

class ShardConnectionTest : public ::testing::Test {
 protected:
  // Makes an operation on one key and queues `parts` parts of it.
  PartOps Enqueue(OpKind kind, uint32_t parts, int priority = 0) {
    auto op = std::make_shared<worker::Operation>(HeapAllocator());
    op->kind = kind;
    op->keys.push_back({.key = 3, .round = 1, .destination = {}});
    op->priority = priority;
    op->source = Frame::Copy(std::vector<std::byte>(parts * kPart));
    PartOps made;
    for (uint32_t i = 0; i < parts; ++i) {
      auto part = std::make_shared<PartOp>();
      part->op = op;
      part->ref = {3, i};
      part->source = part->destination = {i * kPart, kPart};
      part->order = ++order_;
      made.push_back(part);
      shard_.Enqueue(std::move(part));
    }
    return made;
  }
  // Returns the numbers of parts of the pushes that now leave.
  std::vector<size_t> Pushes() {
    shard_.Flush(now_, network_);
    std::vector<size_t> sizes;
    for (const auto& push : network_.Take<wire::Push>(shard_.peer())) sizes.push_back(push.parts.size());
    return sizes;
  }

  Time now_{};
  RecordingNetwork network_;
  worker::NoTracer tracer_;
  membership::MembershipClient self_{membership::Options{}};
  worker::MessageFactory messages_{self_};
  worker::ShardConnection shard_{{7}, 0, {kWindow, 2s, HeapAllocator(), tracer_}, messages_};
  uint64_t order_ = 0;
};

TEST_F(ShardConnectionTest, PushesFillTheWindowAndLeaveAgainAsItEmpties) {
  const PartOps parts = Enqueue(OpKind::kPush, 7);
  EXPECT_THAT(Pushes(), ::testing::ElementsAre(2, 2));
  EXPECT_THAT(Pushes(), IsEmpty());
  for (const size_t i : {0, 1, 1}) shard_.ReleaseInFlight(*parts[i]);  // the second call does nothing
  EXPECT_THAT(Pushes(), ::testing::ElementsAre(2));
}

TEST_F(ShardConnectionTest, PullsDoNotWaitForTheWindowOfPushes) {
  Enqueue(OpKind::kPush, 7);
  Pushes();
  Enqueue(OpKind::kPull, 1);
  shard_.Flush(now_, network_);
  EXPECT_THAT(network_.Take<wire::Pull>(shard_.peer()), SizeIs(1));
}

TEST_F(ShardConnectionTest, AMoreUrgentPushMayGoUpToTwiceTheWindow) {
  Enqueue(OpKind::kPush, 7);
  Pushes();
  Enqueue(OpKind::kPush, 5, 1);
  EXPECT_THAT(Pushes(), ::testing::ElementsAre(2));  // the next ones are no more urgent than the last
}

TEST_F(ShardConnectionTest, ARepeatAsksOnlyForTheValueOfWhatHasArrived) {
  const PartOps parts = Enqueue(OpKind::kPushPull, 2);
  shard_.Flush(now_, network_);
  const uint64_t id = network_.Take().front().message.id;
  parts[0]->acked = true;
  now_ = shard_.NextTimer();
  shard_.Repeat(now_, network_);
  const auto sent = network_.Take();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_EQ(sent[0].message.id, id);
  EXPECT_EQ(sent[1].message.id, id);
  ASSERT_THAT(sent[0].As<wire::Push>().parts, SizeIs(1));
  EXPECT_EQ(sent[0].As<wire::Push>().parts[0].ref.part, 1u);
  ASSERT_THAT(sent[1].As<wire::Pull>().parts, SizeIs(1));
  EXPECT_EQ(sent[1].As<wire::Pull>().parts[0].ref.part, 0u);
  EXPECT_THAT(sent[1].message.payload, IsEmpty());
}

TEST_F(ShardConnectionTest, NothingIsRepeatedBeforeItsTimeNorWhileValuesArrive) {
  Enqueue(OpKind::kPull, 2);
  shard_.Flush(now_, network_);
  const uint64_t id = network_.Take().front().message.id;
  shard_.OnProgress(now_ + 1s, id);
  shard_.Repeat(now_ + 2s, network_);
  EXPECT_THAT(network_.Take(), IsEmpty());
  shard_.Repeat(now_ + 3s, network_);
  EXPECT_THAT(network_.Take(), SizeIs(1));
}

TEST_F(ShardConnectionTest, ARequestEndsWithItsLastPart) {
  const PartOps parts = Enqueue(OpKind::kPush, 2);
  Pushes();
  const uint64_t id = parts[0]->request;
  parts[0]->finished = true;
  shard_.EndIfFinished(id);
  ASSERT_NE(shard_.PartsOf(id), nullptr);
  parts[1]->finished = true;
  shard_.EndIfFinished(id);
  EXPECT_EQ(shard_.PartsOf(id), nullptr);
  EXPECT_EQ(shard_.OnArrival(now_, id), nullptr);
  EXPECT_THAT(shard_.TakeRequest(id), IsEmpty());
}

TEST_F(ShardConnectionTest, PartsSentSeparatelyAreARequestOfTheirOwnOutsideTheWindow) {
  const PartOps parts = Enqueue(OpKind::kPush, 4);
  Pushes();
  const uint64_t refused = parts[0]->request;
  PartOps taken = shard_.TakeRequest(refused);
  ASSERT_THAT(taken, SizeIs(2));
  shard_.SendSeparately(now_, std::move(taken), network_);
  EXPECT_THAT(network_.Take<wire::Push>(shard_.peer()), SizeIs(1));
  EXPECT_NE(parts[0]->request, refused);
  EXPECT_EQ(parts[0]->request, parts[1]->request);
  ASSERT_NE(shard_.PartsOf(parts[0]->request), nullptr);
  EXPECT_EQ(shard_.Describe(), "0 parts queued, 2 requests unanswered, 4 KiB in flight");
}

TEST_F(ShardConnectionTest, ClearDropsWhatIsQueuedAndWhatIsSent) {
  Enqueue(OpKind::kPush, 7);
  Pushes();
  shard_.Clear();
  EXPECT_EQ(shard_.Describe(), "0 parts queued, 0 requests unanswered, 0 B in flight");
  EXPECT_EQ(shard_.NextTimer(), Time::max());
  EXPECT_THAT(Pushes(), IsEmpty());
}

}  // namespace
}  // namespace sluice::testing

// Answers at once, later, and when there is room; and who is told whom it waits for.
#include "server/reply/responder.h"

#include <gmock/gmock.h>

#include <map>
#include <string>

#include "unit/server/steps_fixture.h"

namespace sluice::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ResponderTest : public StepsFixture {
 protected:
  static PendingRequest Pull(uint64_t request_id, uint64_t min_version = 0) {
    return {.rank = 1, .min_version = min_version, .peer = {7}, .request_id = request_id};
  }
  // The requests that were answered with values, in order.
  std::vector<uint64_t> Flush() {
    responder.Flush(network);
    std::vector<uint64_t> answered;
    for (const testing::Sent& sent : network.Take()) {
      EXPECT_TRUE(sent.Is<wire::Values>());
      EXPECT_EQ(sent.to, transport::PeerId{7});
      EXPECT_EQ(sent.message.epoch, 3u);
      EXPECT_EQ(sent.message.sender, (wire::Sender{wire::Role::kServer, 2, 22}));
      answered.push_back(sent.message.in_reply_to);
    }
    return answered;
  }
  std::vector<wire::StillWaiting> StatusAt(Time now) {
    status_updates.SendDue(now, network);
    return network.Take<wire::StillWaiting>({7});
  }

  ReplySender sender = [] {
    ReplySender sender(1, 22);
    sender.SetServer(2, 3);
    return sender;
  }();
  UpdateQueue updates{{}};
  StatusUpdates status_updates{keys, workers, sender, counters};
  Responder responder{keys, updates, sender, status_updates, counters, HeapAllocator()};
  Time now{};
};

TEST_F(ResponderTest, AnswersAtOnceOrOnceTheVersionIsThere) {
  ShardKey& key = AddInitialisedKey();
  ShardPart& part = key.parts[0];
  EXPECT_TRUE(responder.AnswerOrWait(now, key, part, Pull(1)));
  EXPECT_FALSE(responder.AnswerOrWait(now, key, part, Pull(2, 1)));
  EXPECT_THAT(Flush(), ElementsAre(1));
  responder.AnswerReady(key, part);
  EXPECT_THAT(Flush(), IsEmpty());
  part.version = 1;
  responder.AnswerReady(key, part);
  EXPECT_THAT(Flush(), ElementsAre(2));
  EXPECT_THAT(part.pending, IsEmpty());
  responder.AnswerReady(key, part);
  EXPECT_THAT(Flush(), IsEmpty());
}

TEST_F(ResponderTest, ADeferredAnswerIsMadeOnceThereIsRoom) {
  ShardKey& key = AddInitialisedKey();
  ShardPart& part = key.parts[0];
  network.without_room = {{7}};
  EXPECT_TRUE(responder.AnswerOrWait(now, key, part, Pull(1)));
  EXPECT_THAT(Flush(), ElementsAre(1));  // Flush learns that there is no more room
  EXPECT_FALSE(responder.AnswerOrWait(now, key, part, Pull(2)));
  EXPECT_FALSE(responder.AnswerOrWait(now, key, part, Pull(2))) << "a repeat adds no second answer";
  PendingRequest version = Pull(3);
  version.want_data = false;
  EXPECT_TRUE(responder.AnswerOrWait(now, key, part, version)) << "versions never wait";
  EXPECT_THAT(Flush(), ElementsAre(3));
  network.without_room.clear();
  responder.OnRoom({7});
  EXPECT_THAT(Flush(), ElementsAre(2));
  EXPECT_EQ(counters[Counter::kAnswersDeferred], 1u);
}

// Both parts show the state in which the first of them was deferred.
TEST_F(ResponderTest, DeferredAnswersOfAnAsyncKeyShowOneState) {
  ShardKey& key = AddInitialisedKey(2, wire::SyncMode::kAsync);
  network.without_room = {{7}};
  EXPECT_TRUE(responder.AnswerOrWait(now, key, key.parts[0], Pull(1)));
  EXPECT_THAT(Flush(), ElementsAre(1));
  for (ShardPart& part : key.parts) EXPECT_FALSE(responder.AnswerOrWait(now, key, part, Pull(2)));
  for (ShardPart& part : key.parts) {
    std::memcpy(part.weight->Next(), Values(9).data(), 8);
    part.weight->Publish();
    ++part.version;
    responder.AnswerReady(key, part);
  }
  EXPECT_FALSE(responder.AnswerOrWait(now, key, key.parts[0], Pull(3))) << "it would show a later state";
  network.without_room.clear();
  responder.OnRoom({7});
  responder.Flush(network);
  std::vector<float> values;
  for (const testing::Sent& sent : network.Take()) {
    for (const Frame& frame : sent.message.payload) values.push_back(testing::ValuesOf<float>(frame).front());
  }
  EXPECT_THAT(values, ElementsAre(1, 1, 9));
}

TEST_F(ResponderTest, StatusMessagesComeByTheClock) {
  ShardKey& key = AddInitialisedKey(2);
  EXPECT_EQ(status_updates.NextTimer(), Time::max());
  for (ShardPart& part : key.parts) EXPECT_FALSE(responder.AnswerOrWait(now, key, part, Pull(2, 1)));
  EXPECT_EQ(status_updates.NextTimer(), now + 100ms);
  EXPECT_THAT(StatusAt(now + 99ms), IsEmpty());
  const auto told = StatusAt(now + 100ms);
  ASSERT_THAT(told, SizeIs(1)) << "one for all parts";
  EXPECT_EQ(told[0].missing, "worker 0, worker 1");
  EXPECT_EQ(status_updates.NextTimer(), now + 300ms) << "pauses double";
  EXPECT_THAT(StatusAt(now + 299ms), IsEmpty());
  EXPECT_THAT(StatusAt(now + 300ms), SizeIs(1));
  for (ShardPart& part : key.parts) {
    part.version = 1;
    responder.AnswerReady(key, part);
  }
  EXPECT_THAT(StatusAt(now + 10s), IsEmpty());
  EXPECT_EQ(status_updates.NextTimer(), Time::max());
}

// However many requests wait, a pass leaves the shard time for gradients, and no key is forgotten.
TEST_F(ResponderTest, APassSendsSomeStatusMessagesAndTheNextGoesOn) {
  constexpr size_t kMost = StatusUpdates::kMostOfAPass;
  const size_t num_keys = 2 * kMost + 10;
  for (size_t i = 0; i < num_keys; ++i) {
    ShardKey& key = AddInitialisedKey();
    EXPECT_FALSE(responder.AnswerOrWait(now, key, key.parts[0], Pull(i + 1, 1)));
  }
  std::map<std::string, int> messages_of;
  const auto pass = [&](Time at) {
    const auto sent = StatusAt(at);
    for (const wire::StillWaiting& message : sent) ++messages_of[message.id];
    return sent.size();
  };
  EXPECT_EQ(pass(now + 100ms), kMost);
  EXPECT_EQ(status_updates.NextTimer(), now + 200ms);
  EXPECT_EQ(pass(now + 200ms), kMost);
  // Those of the first pass are due again, and come after the ten that are left.
  EXPECT_EQ(pass(now + 300ms), kMost);
  EXPECT_EQ(messages_of.size(), num_keys);
  for (Time at = now + 400ms; at < now + 10s; at += 100ms) EXPECT_LE(pass(at), kMost);
  for (const auto& [key, messages] : messages_of) EXPECT_GE(messages, 4) << key;
}

TEST_F(ResponderTest, AKeyForWhichManyWaitTakesLongerAndIsNotAlwaysTheFirst) {
  constexpr size_t kMost = StatusUpdates::kMostOfAPass;
  ShardKey& key = AddInitialisedKey(2);
  ShardKey& behind = AddInitialisedKey();
  for (uint32_t rank = 2; rank < 3 * kMost; ++rank)
    roster.push_back({.role = wire::Role::kWorker, .rank = rank, .incarnation = 1});
  workers.Set(roster);
  for (uint32_t rank = 0; rank < 3 * kMost; ++rank) {
    PendingRequest pull = Pull(rank + 1, 1);
    pull.rank = rank;
    for (ShardPart& part : key.parts) EXPECT_FALSE(responder.AnswerOrWait(now, key, part, pull));
  }
  EXPECT_FALSE(responder.AnswerOrWait(now, behind, behind.parts[0], Pull(100'000, 1)));
  EXPECT_THAT(StatusAt(now + 100ms), SizeIs(3 * kMost)) << "one message is for both parts";
  EXPECT_EQ(status_updates.NextTimer(), now + 400ms);
  EXPECT_THAT(StatusAt(now + 399ms), IsEmpty());
  const auto next = StatusAt(now + 400ms);
  ASSERT_THAT(next, SizeIs(3 * kMost + 1));
  EXPECT_EQ(next[0].id, wire::ToString(behind.entry.spec));
}

}  // namespace
}  // namespace sluice::server

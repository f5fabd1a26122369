// Which messages an operation becomes, in which order, and what completes it.
#include <gmock/gmock.h>

#include "unit/worker/client_harness.h"

namespace sluice::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ClientFlow : public ClientHarness {};

TEST_F(ClientFlow, ARestartedWorkerGoesOnAtTheServersVersion) {
  AddKey(EntryOf(0, {0}, 2), 41);
  Outcome pushed, set;
  Push(0, FrameOf({1, 1}), &pushed);
  EXPECT_EQ(ToShards().at(0).As<wire::Push>().parts[0].round, 42u);
  client.requests().SetOptimizer(now, {}, 0, Time::max(), set.Record(), network);
  EXPECT_EQ(ToScheduler().As<wire::SetOptimizer>().first_rounds, (std::map<uint32_t, uint64_t>{{0, 43}}));
}

// A part may be one round behind the others when the servers are asked.
TEST_F(ClientFlow, TheVersionIsTheLowestOfTheParts) {
  const wire::KeyEntry entry = EntryOf(0, {0, 1}, 1);
  client.Init(
      now, entry.mode, {{entry.spec, FrameOf({0, 0})}}, Time::max(), [](const auto&) {}, network);
  FromScheduler(wire::KeyTable{{entry}}, ToScheduler().message.id);
  for (const Sent& sent : ToShards()) {
    if (sent.Is<wire::Store>())
      Ack(sent);
    else
      AnswerVersion(sent, sent.As<wire::Pull>().parts[0].ref, sent.to == ShardPeer(0) ? 8 : 7);
  }
  Outcome pushed;
  Push(0, FrameOf({1, 1}), &pushed);
  for (const Sent& sent : ToShards()) EXPECT_EQ(sent.As<wire::Push>().parts[0].round, 8u);
}

TEST_F(ClientFlow, APushIsDoneWhenEveryPartIsAcknowledged) {
  AddKey(EntryOf(0, {0, 1, 0}, 2));
  const Frame gradient = FrameOf({1, 2, 3, 4, 5, 6});
  Outcome pushed;
  auto push = PushOf(0, gradient, pushed.Record());
  push->samples = 9;
  push->divisor = 4;
  client.Submit(now, std::move(push), network);
  const auto sent = ToShards();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_EQ(sent[0].to, ShardPeer(0));
  EXPECT_EQ(sent[0].As<wire::Push>(), (wire::Push{9, 4, {{{0, 0}, 1, false}, {{0, 2}, 1, false}}}));
  EXPECT_EQ(sent[0].message.payload[0].data(), gradient.data());  // the caller's own memory
  EXPECT_EQ(sent[0].message.payload[1].data(), gradient.data() + 16);
  EXPECT_EQ(sent[1].As<wire::Push>(), (wire::Push{9, 4, {{{0, 1}, 1, false}}}));
  Ack(sent[1]);
  EXPECT_EQ(pushed.calls, 0);
  Ack(sent[0]);
  EXPECT_TRUE(pushed.Succeeded());
}

TEST_F(ClientFlow, APullAsksForThisWorkersLastRoundAndLands) {
  AddKey(EntryOf(0, {0, 1}, 2));
  Outcome pushed, pulled;
  std::vector<float> weight(4);
  Push(0, FrameOf({1, 1, 1, 1}), &pushed);
  for (const Sent& sent : ToShards()) Ack(sent);
  Pull(0, &weight, &pulled);
  const auto sent = ToShards();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_EQ(sent[1].As<wire::Pull>(), (wire::Pull{wire::Pull::Want::kValue, {{{0, 1}, 0, 1}}}));
  Answer(sent[1], {0, 1}, 1, 5, 2);
  EXPECT_EQ(pulled.calls, 0);
  Answer(sent[0], {0, 0}, 1, 4, 2);
  EXPECT_TRUE(pulled.Succeeded());
  EXPECT_THAT(weight, ElementsAre(4, 4, 5, 5));
}

TEST_F(ClientFlow, PullLatestAsksForNoRound) {
  AddKey(EntryOf(0, {0}, 1), 6);
  Outcome pulled;
  std::vector<float> weight(1);
  Pull(0, &weight, &pulled, Time::max(), /*latest=*/true);
  EXPECT_EQ(ToShards().at(0).As<wire::Pull>().parts[0].min_version, 0u);
}

TEST_F(ClientFlow, ValuesAloneAnswerAPushPull) {
  AddKey(EntryOf(0, {0}, 2));
  Outcome done;
  std::vector<float> weight(2);
  PushPull(0, FrameOf({1, 1}), &weight, &done);
  const auto sent = ToShards();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].As<wire::Push>().parts, (wire::PartList<wire::PushPart>{{{0, 0}, 1, true}}));
  Answer(sent[0], {0, 0}, 1, 3, 2);
  EXPECT_TRUE(done.Succeeded());
  EXPECT_THAT(weight, Each(3));
}

// Shards forget version r when round r + 1 closes: it must not be pushed before r was read.
TEST_F(ClientFlow, APushWaitsForTheAnswersOfEarlierPullsOfItsPart) {
  AddKey(EntryOf(0, {0, 1}, 1));
  Outcome first, second;
  std::vector<float> a(2), b(2);
  PushPull(0, FrameOf({1, 1}), &a, &first);
  const auto round1 = ToShards();
  PushPull(0, FrameOf({2, 2}), &b, &second);
  for (const Sent& sent : round1) Ack(sent);
  EXPECT_THAT(ToShards(), IsEmpty());
  Answer(round1.at(1), {0, 1}, 1, 7, 1);
  const auto round2 = ToShards();  // that part's alone
  ASSERT_THAT(round2, SizeIs(1));
  EXPECT_EQ(round2[0].As<wire::Push>().parts, (wire::PartList<wire::PushPart>{{{0, 1}, 2, true}}));
}

TEST_F(ClientFlow, PushesDoNotWaitForOneAnother) {
  AddKey(EntryOf(0, {0}, 1));
  Outcome outcomes[3];
  for (Outcome& outcome : outcomes) Push(0, FrameOf({1}), &outcome);
  const auto sent = ToShards();
  ASSERT_THAT(sent, SizeIs(3));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(sent[i].As<wire::Push>().parts[0].round, i + 1);
}

TEST_F(ClientFlow, APushFarAheadFirstHearsHowFarTheShardIs) {
  AddKey(EntryOf(0, {0}, 1));
  std::vector<Outcome> outcomes(plan::kMaxRoundsAhead + 1);
  for (Outcome& outcome : outcomes) Push(0, FrameOf({1}), &outcome);
  const auto sent = ToShards();
  ASSERT_THAT(sent, SizeIs(plan::kMaxRoundsAhead + 1));
  const Sent& ask = sent.back();
  ASSERT_TRUE(ask.Is<wire::Pull>());
  EXPECT_EQ(ask.As<wire::Pull>().want, wire::Pull::Want::kVersion);
  const uint64_t asked = ask.As<wire::Pull>().parts[0].min_version;
  EXPECT_GE(asked + plan::kMaxRoundsAhead, outcomes.size());
  AnswerVersion(ask, {0, 0}, asked - 1);
  EXPECT_THAT(ToShards(), IsEmpty());
  AnswerVersion(ask, {0, 0}, asked);
  EXPECT_EQ(ToShards().at(0).As<wire::Push>().parts[0].round, plan::kMaxRoundsAhead + 1);
}

TEST_F(ClientFlow, SmallPartsOfSeveralKeysTravelTogetherOnceTheyQueue) {
  AddKey(EntryOf(0, {0}, kWindow / 4));
  for (uint32_t key = 1; key <= 3; ++key) AddKey(EntryOf(key, {0}, 1));
  Outcome large, small[3];
  Push(0, FrameOf(std::vector<float>(kWindow / 4)), &large);  // fills the window
  const auto first = ToShards();
  for (uint32_t key = 1; key <= 3; ++key) Push(key, FrameOf({1}), &small[key - 1]);
  EXPECT_THAT(ToShards(), IsEmpty());
  Ack(first.at(0));
  const auto sent = ToShards();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_THAT(sent[0].As<wire::Push>().parts, SizeIs(3));
  EXPECT_THAT(sent[0].message.payload, SizeIs(3));
}

TEST_F(ClientFlow, PushesOfUnlikeOptionsThatQueueTellEachItsOwn) {
  AddKey(EntryOf(0, {0}, kWindow / 4));
  for (uint32_t key = 1; key <= 4; ++key) AddKey(EntryOf(key, {0}, 1), /*version=*/1);
  Outcome large, small[4];
  Push(0, FrameOf(std::vector<float>(kWindow / 4)), &large);  // fills the window
  const auto first = ToShards();
  constexpr struct {
    uint64_t samples;
    double divisor;
    Compression weights;
  } kUnlike[] = {{3, 2, Compression::kNone},
                 {5, 2, Compression::kNone},
                 {5, 4, Compression::kNone},
                 {5, 4, Compression::kFloat16}};
  std::vector<float> weight(1);
  for (uint32_t i = 0; i < 4; ++i) {
    auto op = PushPullOf(i + 1, FrameOf({1}), Into(&weight), small[i].Record());
    op->samples = kUnlike[i].samples;
    op->divisor = kUnlike[i].divisor;
    op->compression.weights = kUnlike[i].weights;
    client.Submit(now, std::move(op), network);
  }
  EXPECT_THAT(ToShards(), IsEmpty());
  Ack(first.at(0));
  const auto sent = ToShards();
  ASSERT_THAT(sent, SizeIs(4));
  for (size_t i = 0; i < 4; ++i) {
    const auto& push = sent[i].As<wire::Push>();
    ASSERT_THAT(push.parts, SizeIs(1));
    EXPECT_EQ(push.parts[0].ref.key, i + 1);
    EXPECT_EQ(push.samples, kUnlike[i].samples);
    EXPECT_EQ(push.divisor, kUnlike[i].divisor);
    EXPECT_EQ(push.values, kUnlike[i].weights);
  }
}

// At most a window of what a key has is asked for at a time; of an async one all of it, to be of one state.
TEST_F(ClientFlow, ALargePullIsAskedForAsItComes) {
  constexpr int64_t kPart = kWindow / 16;  // elements: a fourth of the window
  for (const auto mode : {wire::SyncMode::kSync, wire::SyncMode::kAsync}) {
    const bool sync = mode == wire::SyncMode::kSync;
    const uint32_t key = sync ? 0 : 1;
    auto entry = EntryOf(key, std::vector<uint32_t>(12, 0), kPart);
    entry.mode = mode;
    AddKey(entry);
    std::vector<float> weight(12 * kPart);
    Outcome pulled;
    Pull(key, &weight, &pulled);
    std::vector<Sent> open = ToShards();
    EXPECT_THAT(open, SizeIs(sync ? 2 : 1));  // a message has at most half of the window
    size_t asked = 0, landed = 0;
    while (!open.empty()) {
      const Sent request = open.front();
      open.erase(open.begin());
      for (const wire::PullPart& part : request.As<wire::Pull>().parts) {
        ++asked;
        Answer(request, part.ref, 0, static_cast<float>(++landed), kPart);
      }
      for (Sent& more : ToShards()) open.push_back(std::move(more));
      if (sync) {
        EXPECT_LE(open.size(), 2u);
      }
    }
    EXPECT_TRUE(pulled.Succeeded());
    EXPECT_EQ(asked, 12u);
    EXPECT_EQ(weight[11 * kPart], 12);
  }
}

// What was asked for before a pull began may be older than what that is to see.
TEST_F(ClientFlow, APullThatHasNotLeftTakesNoAnswerToAnEarlierOne) {
  constexpr int64_t kPart = kWindow / 16;
  AddKey(EntryOf(0, std::vector<uint32_t>(12, 0), kPart));
  std::vector<float> earlier(12 * kPart), later(12 * kPart);
  Outcome first, second;
  Pull(0, &earlier, &first, Time::max(), /*latest=*/true);
  std::vector<Sent> open = ToShards();
  Pull(0, &later, &second, Time::max(), /*latest=*/true);
  EXPECT_THAT(ToShards(), IsEmpty());  // the window is full
  for (float value = 1; !open.empty(); value = 2) {
    for (const Sent& request : std::exchange(open, {})) {
      for (const wire::PullPart& part : request.As<wire::Pull>().parts)
        Answer(request, part.ref, 0, value, kPart);
    }
    open = ToShards();
  }
  EXPECT_TRUE(first.Succeeded());
  EXPECT_TRUE(second.Succeeded());
  EXPECT_EQ(earlier.front(), 1);
  EXPECT_THAT(later, Each(2));
}

// What comes of a request says that the rest is behind it; what is lost is asked for once nothing comes.
TEST_F(ClientFlow, ARequestIsNotRepeatedWhileItsValuesCome) {
  auto entry = EntryOf(0, std::vector<uint32_t>(8, 0), 4);
  AddKey(entry);
  std::vector<float> weight(32);
  Outcome pulled;
  Pull(0, &weight, &pulled);
  const auto asked = ToShards();
  ASSERT_THAT(asked, SizeIs(1));
  ASSERT_THAT(asked[0].As<wire::Pull>().parts, SizeIs(8));
  for (const uint32_t part : {0, 1, 2, 3, 4, 6, 7}) {  // 5 is lost
    RunFor(kResend - 100ms);
    EXPECT_THAT(ToShards(), IsEmpty()) << part;
    Answer(asked[0], {0, part}, 0, 1, 4);
  }
  EXPECT_EQ(pulled.calls, 0);
  RunFor(kResend);
  const auto again = ToShards();
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].As<wire::Pull>().parts, (wire::PartList<wire::PullPart>{{{0, 5}, 0, 0}}));
  Answer(again[0], {0, 5}, 0, 1, 4);
  EXPECT_TRUE(pulled.Succeeded());
}

TEST_F(ClientFlow, WhatIsStartedTogetherLeavesInOneMessageForEachShard) {
  for (uint32_t key = 0; key < 5; ++key) AddKey(EntryOf(key, {0, 1}, 2));
  Outcome pushed[5];
  client.RunAsBatch(now, network, [&] {
    for (uint32_t key = 0; key < 5; ++key) Push(key, FrameOf({1, 2, 3, 4}), &pushed[key]);
    EXPECT_THAT(ToShards(), SizeIs(0));
  });
  const auto sent = ToShards();
  ASSERT_THAT(sent, SizeIs(2));
  for (const Sent& message : sent) {
    EXPECT_THAT(message.As<wire::Push>().parts, SizeIs(5));
    Ack(message);
  }
  for (const Outcome& outcome : pushed) EXPECT_TRUE(outcome.Succeeded());
  Outcome alone;
  Push(0, FrameOf({1, 2, 3, 4}), &alone);
  EXPECT_THAT(ToShards(), SizeIs(2)) << "nothing is held back any more";
}

TEST_F(ClientFlow, TheWindowCountsUnansweredBytesOfEachShard) {
  for (uint32_t key = 0; key < 4; ++key) AddKey(EntryOf(key, {key == 3 ? 1u : 0u}, kWindow / 8));
  const Frame half = FrameOf(std::vector<float>(kWindow / 8));
  Outcome outcomes[4];
  for (uint32_t key = 0; key < 3; ++key) Push(key, half, &outcomes[key]);
  const auto sent = ToShards();
  ASSERT_THAT(sent, SizeIs(2));  // two halves are the window
  Push(3, half, &outcomes[3]);
  EXPECT_EQ(ToShards().at(0).to, ShardPeer(1));  // the other shard is free
  Ack(sent[0]);
  EXPECT_EQ(ToShards().at(0).As<wire::Push>().parts[0].ref.key, 2u);
}

// Whose value waits for other workers: were it to hold the next push back, two workers could wait for each
// other.
TEST_F(ClientFlow, WhatWaitsForARoundHoldsNoPushBack) {
  for (uint32_t key = 0; key < 3; ++key) AddKey(EntryOf(key, {0}, kWindow / 4));
  const Frame full = FrameOf(std::vector<float>(kWindow / 4));
  std::vector<float> weight(kWindow / 4);
  Outcome both, pushed;
  PushPull(0, full, &weight, &both);
  const auto sent = ToShards();
  Push(1, full, &pushed);
  EXPECT_THAT(ToShards(), IsEmpty());  // the shard does not have the first yet
  Ack(sent.at(0));                     // now it has; the value is still to come
  EXPECT_EQ(ToShards().at(0).As<wire::Push>().parts[0].ref.key, 1u);
  EXPECT_EQ(both.calls, 0);
}

TEST_F(ClientFlow, HigherPrioritiesOvertakeWhatWaits) {
  constexpr int kPriorities[] = {0, -2, 5, -1, 5};
  for (uint32_t key = 0; key < 5; ++key) AddKey(EntryOf(key, {0}, kWindow / 4));
  Outcome outcomes[5];
  for (uint32_t key = 0; key < 5; ++key)
    Push(key, FrameOf(std::vector<float>(kWindow / 4)), &outcomes[key], kPriorities[key]);
  std::vector<uint32_t> order;
  for (auto sent = ToShards(); !sent.empty(); sent = ToShards()) {
    for (const Sent& one : sent) {
      for (const wire::PushPart& part : one.As<wire::Push>().parts) order.push_back(part.ref.key);
      Ack(one);
    }
  }
  EXPECT_THAT(order, ElementsAre(0, 2, 4, 3, 1));  // 0 had left when the others came
}

TEST_F(ClientFlow, WhatIsMoreUrgentThanTheLastThatLeftGoesBeyondTheWindowOnce) {
  for (uint32_t key = 0; key < 4; ++key) AddKey(EntryOf(key, {0}, kWindow / 4));
  const Frame full = FrameOf(std::vector<float>(kWindow / 4));
  Outcome outcomes[4];
  Push(0, full, &outcomes[0], -1);
  EXPECT_THAT(ToShards(), SizeIs(1));
  Push(1, full, &outcomes[1], -1);
  EXPECT_THAT(ToShards(), IsEmpty());
  Push(2, full, &outcomes[2], 1);
  const auto urgent = ToShards();
  ASSERT_THAT(urgent, SizeIs(1));
  EXPECT_EQ(urgent[0].As<wire::Push>().parts[0].ref.key, 2u);
  Push(3, full, &outcomes[3], 2);  // two windows are under way
  EXPECT_THAT(ToShards(), IsEmpty());
}

TEST_F(ClientFlow, StatesTravelBySlotWithTheirUpdates) {
  AddKey(EntryOf(0, {0}, 2));
  Outcome stored;
  client.Submit(now, StateOf(0, 1, 17, FrameOf({1, 2}), stored.Record()), network);
  const auto store = ToShards();
  EXPECT_EQ(store.at(0).As<wire::Store>(), (wire::Store{wire::Store::Purpose::kState, {{{0, 0}, 1, 17}}}));
  Ack(store[0]);
  EXPECT_TRUE(stored.Succeeded());
  std::vector<float> state(2);
  Outcome pulled;
  auto op = PullOf(0, Into(&state), pulled.Record());
  op->slot = 1;
  op->latest = true;
  client.Submit(now, std::move(op), network);
  const auto pull = ToShards();
  EXPECT_EQ(pull.at(0).As<wire::Pull>(), (wire::Pull{wire::Pull::Want::kValue, {{{0, 0}, 1, 0}}}));
  Answer(pull[0], {0, 0}, 17, 8, 2, /*slot=*/1);
  EXPECT_TRUE(pulled.Succeeded());
  EXPECT_THAT(state, Each(8));
}

TEST_F(ClientFlow, TheNumberOfUpdatesTravelsAlone) {
  AddKey(EntryOf(0, {0, 1}, 2));
  Outcome stored;
  client.Submit(now, StateOf(0, 0, 17, Frame(), stored.Record()), network);
  for (const Sent& store : ToShards()) {
    const auto& parts = store.As<wire::Store>().parts;
    EXPECT_THAT(parts, ElementsAre(wire::StorePart{parts.front().ref, 0, 17}));
    EXPECT_TRUE(store.message.payload[0].empty());
    Ack(store);
  }
  EXPECT_TRUE(stored.Succeeded());
  std::optional<uint64_t> updates;
  client.Submit(now,
                worker::NewPullUpdates(HeapAllocator(), 0,
                                       [&](const Result<uint64_t>& seen) { updates = seen.value(); }),
                network);
  const auto pulls = ToShards();
  ASSERT_EQ(pulls.size(), 2u);
  for (uint32_t part : {0u, 1u}) {
    EXPECT_EQ(pulls[part].As<wire::Pull>(), (wire::Pull{wire::Pull::Want::kVersion, {{{0, part}, 1, 0}}}));
    EXPECT_EQ(updates, std::nullopt);
    AnswerVersion(pulls[part], {0, part}, 18 - part, /*slot=*/1);
  }
  EXPECT_EQ(updates, 17u);  // parts between two rounds count the earlier
}

TEST_F(ClientFlow, PushesOfOneExponentTravelTogether) {
  for (uint32_t key = 0; key < 3; ++key) AddKey(EntryOf(key, {0}, 2));
  Outcome outcomes[3];
  client.RunAsBatch(now, network, [&] {
    for (uint32_t key = 0; key < 3; ++key) {
      auto push = PushOf(key, FrameOf({1, 2}), outcomes[key].Record());
      push->exponent = key == 0 ? 0u : 2u;
      client.Submit(now, std::move(push), network);
    }
  });
  const auto sent = ToShards();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_EQ(sent[0].As<wire::Push>().exponent, 0u);
  EXPECT_EQ(sent[1].As<wire::Push>().exponent, 2u);
  EXPECT_THAT(sent[1].As<wire::Push>().parts, SizeIs(2));
}

}  // namespace
}  // namespace sluice::testing

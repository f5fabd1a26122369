// Init: how keys are declared at the scheduler, and who stores their first values.
#include <gmock/gmock.h>

#include "base/strings.h"
#include "unit/worker/client_harness.h"
#include "wire/codec.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Lt;
using ::testing::SizeIs;

class ClientInit : public ClientHarness {};

TEST_F(ClientInit, InitDeclaresThenStoresEachPartAtItsShard) {
  const wire::KeyEntry entry = EntryOf(4, {0, 1}, 2);
  const Frame value = FrameOf({1, 2, 3, 4});
  int calls = 0;
  client.Init(
      now, wire::SyncMode::kSync, {{entry.spec, value}}, Time::max(), [&](const auto&) { ++calls; }, network);
  const Sent declare = ToScheduler();
  EXPECT_EQ(declare.As<wire::DeclareKeys>(), (wire::DeclareKeys{wire::SyncMode::kSync, {entry.spec}}));
  FromScheduler(wire::KeyTable{{entry}}, declare.message.id);
  std::vector<Sent> stores, versions;
  for (const Sent& sent : ToShards()) (sent.Is<wire::Store>() ? stores : versions).push_back(sent);
  ASSERT_THAT(stores, SizeIs(2));
  ASSERT_THAT(versions, SizeIs(2));
  for (uint32_t part = 0; part < 2; ++part) {
    EXPECT_EQ(stores[part].to, ShardPeer(part));
    EXPECT_EQ(stores[part].As<wire::Store>(),
              (wire::Store{wire::Store::Purpose::kInit, {{.ref = {4, part}}}}));
    EXPECT_EQ(stores[part].message.payload[0].data(), value.data() + 8 * part);
    EXPECT_EQ(versions[part].As<wire::Pull>(),
              (wire::Pull{wire::Pull::Want::kVersion, {{.ref = {4, part}}}}));
  }
  for (const Sent& store : stores) Ack(store);
  AnswerVersion(versions[0], {4, 0}, 0);
  EXPECT_EQ(calls, 0);
  AnswerVersion(versions[1], {4, 1}, 0);
  EXPECT_EQ(calls, 1);
}

TEST_F(ClientInit, InitOfSeveralKeysIsDoneWhenAllAreThere) {
  const wire::KeyEntry first = EntryOf(0, {0}, 1), second = EntryOf(1, {1}, 1);
  int calls = 0;
  client.Init(
      now, wire::SyncMode::kSync, {{first.spec, FrameOf({1})}, {second.spec, FrameOf({2})}}, Time::max(),
      [&](const auto& result) {
        ++calls;
        EXPECT_THAT(result.value(), ElementsAre(0, 1));
      },
      network);
  FromScheduler(wire::KeyTable{{first, second}}, ToScheduler().message.id);
  for (const Sent& sent : ToShards()) {
    EXPECT_EQ(calls, 0);
    if (sent.Is<wire::Store>()) Ack(sent);
    if (sent.Is<wire::Pull>()) AnswerVersion(sent, sent.As<wire::Pull>().parts[0].ref, 0);
  }
  EXPECT_EQ(calls, 1);
}

// More keys than a message holds: the scheduler gets all of them, and says that it takes them, before their
// entries are asked for.
TEST_F(ClientInit, InitOfManyKeysTakesSeveralMessages) {
  constexpr size_t kKeys = 40'000;
  std::vector<worker::InitArgs> keys;
  for (uint32_t i = 0; i < kKeys; ++i) keys.push_back({EntryOf(i, {0}, 1).spec, FrameOf({1})});
  int calls = 0;
  client.Init(
      now, wire::SyncMode::kSync, keys, Time::max(), [&](const auto&) { ++calls; }, network);
  std::vector<wire::KeySpec> parts, declared;
  std::optional<uint64_t> call;
  while (parts.size() < kKeys) {
    const Sent sent = ToScheduler();
    const auto& part = sent.As<wire::DeclareKeys>();
    EXPECT_EQ(part.part, (wire::DeclareKeys::Part{call.value_or(part.part.call), parts.size(), kKeys}));
    call = part.part.call;
    ASSERT_FALSE(part.keys.empty());
    ASSERT_LT(wire::EncodeEnvelope(sent.message).size(), 4u << 20);
    parts.insert(parts.end(), part.keys.begin(), part.keys.end());
    FromScheduler(wire::Ack{}, sent.message.id);
  }
  while (declared.size() < kKeys) {
    const Sent sent = ToScheduler();
    const auto& declare = sent.As<wire::DeclareKeys>();
    EXPECT_EQ(declare.part, wire::DeclareKeys::Part());
    ASSERT_FALSE(declare.keys.empty());
    wire::KeyTable table;
    for (const wire::KeySpec& spec : declare.keys) {
      table.entries.push_back(EntryOf(static_cast<uint32_t>(declared.size()), {0}, 1));
      declared.push_back(spec);
    }
    EXPECT_THAT(ToShards(), IsEmpty());
    FromScheduler(table, sent.message.id);
  }
  EXPECT_EQ(parts, declared);
  for (size_t i = 0; i < kKeys; ++i) ASSERT_EQ(declared[i], keys[i].spec);
  EXPECT_NE(client.keys().Find(0), nullptr);
  EXPECT_NE(client.keys().Find(kKeys - 1), nullptr);
  EXPECT_EQ(calls, 0);
}

TEST_F(ClientInit, InitOfManyKeysEndsAtTheFirstRefusal) {
  std::vector<worker::InitArgs> keys;
  for (uint32_t i = 0; i < 40'000; ++i) keys.push_back({EntryOf(i, {0}, 1).spec, FrameOf({1})});
  std::vector<Failure> failures;
  client.Init(
      now, wire::SyncMode::kSync, keys, Time::max(),
      [&](const auto& result) { failures.push_back(result.failure()); }, network);
  FromScheduler(wire::Ack{}, ToScheduler().message.id);
  FromScheduler(wire::ErrorReply{ErrorCode::kAlreadyExists, "key20000 is taken"}, ToScheduler().message.id);
  EXPECT_THAT(failures, ElementsAre(Failure{ErrorCode::kAlreadyExists, "key20000 is taken"}));
  EXPECT_THAT(network.Take(), IsEmpty());
  EXPECT_EQ(client.keys().Find(0), nullptr);
}

// What comes back names each slice: 3,900 of these fit one message but for those.
TEST_F(ClientInit, InitOfManyKeysHasRoomForTheirSlices) {
  const Frame zeros = FrameOf(std::vector<float>(1500));
  std::vector<worker::InitArgs> keys;
  for (uint32_t i = 0; i < 3'900; ++i) {
    keys.push_back({EntryOf(i, {0, 1}, 750).spec, zeros});
    keys.back().spec.name = StrCat(std::string(1000, 'k'), i);
  }
  client.Init(
      now, wire::SyncMode::kSync, keys, Time::max(), [](const auto&) {}, network);
  EXPECT_THAT(ToScheduler().As<wire::DeclareKeys>().keys, SizeIs(Lt(keys.size())));
}

class ClientOfRank1 : public ClientHarness {
 protected:
  ClientOfRank1() : ClientHarness(1) {}
};

TEST_F(ClientOfRank1, WaitsForRank0sValueInPlaceOfStoringItsOwn) {
  const wire::KeyEntry entry = EntryOf(0, {1}, 2);
  Result<std::vector<uint32_t>> ids = Fail(ErrorCode::kUnavailable, "not called");
  client.Init(
      now, wire::SyncMode::kSync, {{entry.spec, FrameOf({1, 2})}}, now + 60s,
      [&](const auto& result) { ids = result; }, network);
  FromScheduler(wire::KeyTable{{entry}}, ToScheduler().message.id);
  const auto sent = ToShards();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_TRUE(sent[0].Is<wire::Pull>());
  RunFor(61s);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.failure().code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(ids.failure().message, HasSubstr("key0"));
  EXPECT_THAT(ids.failure().message, HasSubstr("worker 0 to initialise the key"));
}

}  // namespace
}  // namespace sluice::testing

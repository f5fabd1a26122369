#include "wire/messages.h"

#include <gtest/gtest.h>

#include <set>

#include "unit/wire/random_message.h"

namespace sluice::wire {
namespace {

// The 64-bit FNV-1a vectors of http://www.isthe.com/chongo/tech/comp/fnv/.
TEST(HashJobId, IsFnv1a) {
  EXPECT_EQ(HashJobId(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(HashJobId("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(HashJobId("foobar"), 0x85944171f73967e8ULL);
}

TEST(BodyName, IsUniqueAndInTheOrderOfTheVariant) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < std::variant_size_v<BodyVariant>; ++i) names.insert(BodyName(i));
  EXPECT_EQ(names.size(), std::variant_size_v<BodyVariant>);
  EXPECT_EQ(BodyName(Register{}), "Register");
  EXPECT_EQ(BodyName(Push{}), "Push");
  EXPECT_EQ(BodyName(SetOptimizer{}), "SetOptimizer");
  EXPECT_EQ(BodyName(Ack{}), "Ack");
  EXPECT_EQ(BodyName(ErrorReply{}), "ErrorReply");
}

TEST(Name, OfRolesModesAndKeys) {
  EXPECT_EQ(Name(Role::kScheduler), "scheduler");
  EXPECT_EQ(Name(Role::kServer), "server");
  EXPECT_EQ(Name(Role::kWorker), "worker");
  EXPECT_EQ(Name(SyncMode::kSync), "sync");
  EXPECT_EQ(Name(SyncMode::kAsync), "async");
  EXPECT_EQ(ToString(KeyName(int64_t{-3})), "-3");
  EXPECT_EQ(ToString(KeyName("fc1.weight")), "fc1.weight");
}

TEST(Describe, IsOneReadableLine) {
  Message message;
  message.sender = {Role::kWorker, 1, 99};
  message.id = 7;
  message.body = Push{.parts = {{.round = 4}, {.round = 4}}};
  message.payload = {Frame::Copy(AsBytes(std::string(1024, 'x'))),
                     Frame::Copy(AsBytes(std::string(512, 'x')))};
  EXPECT_EQ(Describe(message), "worker 1 -> Push id 7, 2 parts, round 4, 1.5 KiB");
  EXPECT_EQ(PayloadBytes(message), 1536u);
  std::get<Push>(message.body).compression = Compression::k2Bit;
  EXPECT_EQ(Describe(message), "worker 1 -> Push id 7, 2 parts, round 4, 2bit, 1.5 KiB");
  Message reply;
  reply.sender = {Role::kServer, 0, 5};
  reply.id = 2;
  reply.in_reply_to = 7;
  reply.body = ErrorReply{ErrorCode::kNotFound, "no key 3"};
  EXPECT_EQ(Describe(reply), std::string("server 0 -> ErrorReply id 2 re 7, ") +
                                 std::string(ErrorCodeName(ErrorCode::kNotFound)) + ": no key 3");
}

TEST(Describe, WorksForEveryBody) {
  testing::RandomMessages random(5);
  for (size_t i = 0; i < std::variant_size_v<BodyVariant>; ++i) {
    const Message message = random.Make(i);
    EXPECT_NE(Describe(message).find(BodyName(i)), std::string::npos);
  }
}

}  // namespace
}  // namespace sluice::wire

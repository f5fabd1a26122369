// What operations need of their keys, and the queue of callbacks.
#include <gmock/gmock.h>

#include "unit/recording_network.h"
#include "worker/operations/completion_queue.h"
#include "worker/operations/validation.h"
#include "worker/operations/wait_reporter.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using worker::Operation;
using worker::OpKind;

// A float32 key of two parts of four elements each, on two shards.
wire::KeyEntry EntryOf(uint32_t id, uint32_t store = 0) {
  wire::KeyEntry entry;
  entry.id = id;
  entry.spec = {"key" + std::to_string(id), DType::kFloat32, Shape{8}, store};
  entry.slices = {{0, 0, 4}, {1, 4, 4}};
  entry.part_elements = 4;
  return entry;
}

class OperationsTest : public ::testing::Test {
 protected:
  static std::shared_ptr<Operation> On(OpKind kind, uint32_t key, size_t source_bytes, uint64_t round = 0) {
    auto op = std::make_shared<Operation>(HeapAllocator());
    op->kind = kind;
    op->keys.push_back({.key = key, .round = round, .destination = {}});
    op->source = Frame::Copy(std::vector<std::byte>(source_bytes));
    return op;
  }
  std::string ReasonAgainst(const Operation& op) const {
    const Status status = ValidateOperation(op, keys_);
    return status.ok() ? "" : status.failure().message;
  }

  worker::DeclaredKeys keys_;
};

TEST_F(OperationsTest, AnOperationOfAnUnknownKeyIsImpossible) {
  keys_.Add(EntryOf(2));
  EXPECT_THAT(ReasonAgainst(*On(OpKind::kPush, 1, 32)), HasSubstr("key number 1 has not been initialised"));
  EXPECT_THAT(ReasonAgainst(*On(OpKind::kPush, 3, 32)), HasSubstr("key number 3 has not been initialised"));
  EXPECT_EQ(ReasonAgainst(*On(OpKind::kPush, 2, 32)), "");
}

TEST_F(OperationsTest, ASourceHasTheBytesOfItsEncoding) {
  keys_.Add(EntryOf(0));
  EXPECT_EQ(ReasonAgainst(*On(OpKind::kPush, 0, 28)),
            "push of key key0: 28 bytes were given, the key has 32");
  const auto half = On(OpKind::kPush, 0, 16);
  half->compression.type = Compression::kFloat16;
  EXPECT_EQ(ReasonAgainst(*half), "");
  EXPECT_EQ(PushedBytes(*half, *keys_.Find(0)), 16u);
  EXPECT_EQ(PushedBytes(*half, *keys_.Find(0), keys_.Find(0)->parts[1]), 8u);
}

TEST_F(OperationsTest, AfterARefusedRoundWhatNeedsItIsImpossible) {
  keys_.Add(EntryOf(0));
  keys_.Find(0)->refused_round = 5;
  keys_.Find(0)->refusal = Fail(ErrorCode::kInvalidArgument, "refused");
  std::vector<float> weight(8);
  const auto pull = [&](uint64_t round) {
    auto op = On(OpKind::kPull, 0, 0, round);
    op->only().destination.bytes = std::as_writable_bytes(std::span(weight));
    return op;
  };
  EXPECT_EQ(ReasonAgainst(*On(OpKind::kPush, 0, 32)), "refused");  // its round is a later one
  EXPECT_EQ(ReasonAgainst(*pull(5)), "refused");
  EXPECT_EQ(ReasonAgainst(*pull(4)), "");
  auto state = pull(5);
  state->slot = 1;
  EXPECT_EQ(ReasonAgainst(*state), "");
}

TEST_F(OperationsTest, NextRoundsAreThoseOfOneStore) {
  for (const uint32_t id : {0, 2}) keys_.Add(EntryOf(id, 7));
  keys_.Add(EntryOf(3, 8));
  keys_.Find(2)->pushed = 4;
  EXPECT_THAT(keys_.NextRounds(7), ElementsAre(Pair(0, 1), Pair(2, 5)));
  EXPECT_THAT(keys_.NextRounds(9), IsEmpty());
  EXPECT_EQ(keys_.PushedRound(2), 4u);
  EXPECT_EQ(keys_.PushedRound(1), 0u);
  EXPECT_EQ(keys_.weight_bytes(), 96u);
  keys_.Add(EntryOf(2, 7));  // it is known: its round stays, its bytes count once
  EXPECT_EQ(keys_.PushedRound(2), 4u);
  EXPECT_EQ(keys_.weight_bytes(), 96u);
}

TEST_F(OperationsTest, CallbacksThatCallbacksQueueRunToo) {
  worker::CompletionQueue completions;
  RecordingNetwork network;
  std::vector<std::string> called;
  worker::Callback callback = [&](const Status& status) { called.push_back(status.failure().message); };
  completions.Add([&](Time, transport::Network&) {
    called.emplace_back("first");
    completions.Add(callback, Fail(ErrorCode::kCancelled, "second"));
    completions.Add(callback, Status::Ok());  // it has been moved out
  });
  EXPECT_THAT(called, IsEmpty());
  completions.Run(Time{}, network);
  EXPECT_THAT(called, ElementsAre("first", "second"));
}

TEST_F(OperationsTest, AReportIsDueOnceSomethingHasWaitedLongEnough) {
  std::vector<std::string> lines;
  worker::WaitReporter waits([&](const std::string& line) { lines.push_back(line); });
  const Time start{};
  EXPECT_EQ(waits.NextTimer(), Time::max());
  waits.Watch(start);
  EXPECT_FALSE(waits.BeginReport(start + 9s));
  ASSERT_TRUE(waits.BeginReport(start + 10s));
  waits.reports().Add(start + 10s, "server 1", start, Time::max(),
                      [] { return std::string("push of key w"); });
  waits.Print(start + 10s);
  ASSERT_THAT(lines, ::testing::SizeIs(1));
  EXPECT_THAT(lines[0], HasSubstr("waiting for server 1"));
  EXPECT_GT(waits.NextTimer(), start + 10s);
}

}  // namespace
}  // namespace sluice::testing

// Which parts share a message, and how many.
#include "worker/connection/send_queue.h"

#include <gmock/gmock.h>

namespace sluice::worker {
namespace {

using ::testing::ElementsAre;

const std::shared_ptr<Allocator> kMemory = HeapAllocator();
constexpr size_t kPart = 100;  // bytes

class SendQueueTest : public ::testing::Test {
 protected:
  static std::shared_ptr<Operation> Make(OpKind kind) {
    auto op = std::make_shared<Operation>(kMemory);
    op->kind = kind;
    op->keys.push_back({.key = 0, .round = 1, .destination = {}});
    return op;
  }
  void Add(const std::shared_ptr<Operation>& op, size_t parts = 1) {
    for (size_t i = 0; i < parts; ++i) {
      auto part = std::make_shared<PartOp>();
      part->op = op;
      part->source = part->destination = {0, kPart};
      part->order = ++order_;
      queue_.Add(std::move(part));
    }
  }
  // How many parts each message takes.
  std::vector<size_t> Messages(size_t most_bytes = 1 << 20, size_t most_of_one_pull = 1 << 20) {
    std::vector<size_t> sizes;
    while (!queue_.empty()) sizes.push_back(queue_.NextBatch(most_bytes, most_of_one_pull).size());
    return sizes;
  }
  // Returns the messages of two operations that are alike but for what `make_unlike` does to the second.
  std::vector<size_t> MessagesOf(OpKind kind, const std::function<void(Operation&)>& make_unlike) {
    const auto first = Make(kind), second = Make(kind);
    make_unlike(*second);
    Add(first);
    Add(second);
    return Messages();
  }

  SendQueue queue_{kMemory};
  uint64_t order_ = 0;
};

// A message has one sample count, one divisor, one compression and one form of weights for all its parts.
TEST_F(SendQueueTest, PushesShareAMessageWhenAllThatItSaysHoldsForBoth) {
  for (const OpKind kind : {OpKind::kPush, OpKind::kPushPull}) {
    EXPECT_THAT(MessagesOf(kind, [](Operation&) {}), ElementsAre(2));
    EXPECT_THAT(MessagesOf(kind, [](Operation& op) { op.samples = 3; }), ElementsAre(1, 1));
    EXPECT_THAT(MessagesOf(kind, [](Operation& op) { op.divisor = 2; }), ElementsAre(1, 1));
    EXPECT_THAT(MessagesOf(kind, [](Operation& op) { op.compression.type = Compression::kFloat16; }),
                ElementsAre(1, 1));
    EXPECT_THAT(MessagesOf(kind, [](Operation& op) { op.compression.weights = Compression::kFloat16; }),
                ElementsAre(1, 1));
    EXPECT_THAT(MessagesOf(kind, [](Operation& op) { op.kind = OpKind::kInit; }), ElementsAre(1, 1));
  }
}

TEST_F(SendQueueTest, PullsShareAMessageWhenTheyWantOneForm) {
  EXPECT_THAT(MessagesOf(OpKind::kPull, [](Operation&) {}), ElementsAre(2));
  EXPECT_THAT(
      MessagesOf(OpKind::kPull, [](Operation& op) { op.compression.weights = Compression::kBFloat16; }),
      ElementsAre(1, 1));
  EXPECT_THAT(MessagesOf(OpKind::kPull, [](Operation& op) { op.kind = OpKind::kVersion; }),
              ElementsAre(1, 1));
  EXPECT_THAT(MessagesOf(OpKind::kPullRows, [](Operation&) {}), ElementsAre(1, 1));
}

TEST_F(SendQueueTest, AMessageHasABoundAndOnePullOfOneKeyALargerOne) {
  Add(Make(OpKind::kPush), 7);
  EXPECT_THAT(Messages(3 * kPart), ElementsAre(3, 3, 1));
  for (int i = 0; i < 5; ++i) Add(Make(OpKind::kPull));
  EXPECT_THAT(Messages(2 * kPart, 4 * kPart), ElementsAre(2, 2, 1));
  Add(Make(OpKind::kPull), 10);
  EXPECT_THAT(Messages(2 * kPart, 4 * kPart), ElementsAre(4, 4, 2));
}

TEST_F(SendQueueTest, APullWhoseValuesAreOfOneStateIsOneMessage) {
  const auto op = Make(OpKind::kPull);
  op->one_state = true;
  Add(op, 1000);
  EXPECT_THAT(Messages(kPart, kPart), ElementsAre(1000));
}

}  // namespace
}  // namespace sluice::worker

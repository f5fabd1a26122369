// Tests transport/zmq/frames.h: messages as they leave and arrive on real sockets, and what they cost.
#include "transport/zmq/frames.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>

#include "transport/zmq/socket.h"

namespace sluice::transport {
namespace {

using namespace std::chrono_literals;  // NOLINT

enum class End { kDealer, kRouter };

// A dealer and the router that it is connected to, seen from one end.
class ZmqFramesTest : public ::testing::TestWithParam<End> {
 protected:
  ZmqFramesTest() {
    router_.Set(ZMQ_ROUTER_MANDATORY, 1);
    router_.Bind("tcp://127.0.0.1:*", "");
    dealer_.Set(ZMQ_ROUTING_ID, std::string_view(reinterpret_cast<const char*>(&kDealer), sizeof kDealer));
    dealer_.Connect(router_.LastEndpoint());
    // The router knows the dealer by what it has heard.
    EXPECT_TRUE(Send(dealer_).reached);
    EXPECT_TRUE(AwaitMessage(router_));
  }
  ZmqSocket& here() { return GetParam() == End::kDealer ? dealer_ : router_; }
  ZmqSocket& there() { return GetParam() == End::kDealer ? router_ : dealer_; }

  // Sends a message of several frames.
  SendResult Send(ZmqSocket& from) {
    const Frame envelope = Frame::Copy(AsBytes("envelope"));
    const wire::Frames payload = {Frame::Copy(AsBytes("small")),
                                  Frame::Copy(AsBytes(std::string(2000, 'x')))};
    return SendMultipart(from.native(), &from == &router_ ? &kDealer : nullptr, envelope, payload, queue_,
                         HeapAllocator());
  }
  static bool Tells(const ZmqSocket& socket, std::chrono::milliseconds timeout) {
    const auto end = std::chrono::steady_clock::now() + timeout;
    pollfd fd{.fd = socket.fd(), .events = POLLIN, .revents = 0};
    while (true) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
      const int ready = poll(&fd, 1, static_cast<int>(std::max<int64_t>(left, 0)));
      if (ready >= 0 || errno != EINTR) return ready == 1;
    }
  }
  // How many messages there were.
  int ReadAll(ZmqSocket& socket) {
    for (int count = 0;; ++count) {
      Multipart message;
      if (ReceiveMultipart(socket.native(), &socket == &router_, {}, HeapAllocator(), &message) ==
          Multipart::State::kNone)
        return count;
    }
  }
  // Whether one comes in time.
  bool AwaitMessage(ZmqSocket& socket) {
    while (Tells(socket, 5s)) {
      if (ReadAll(socket) > 0) return true;
    }
    return false;
  }

  static constexpr RoutingId kDealer = 1;
  void* const context_ = zmq_ctx_new();
  const std::unique_ptr<void, int (*)(void*)> end_{context_, &zmq_ctx_term};  // after the sockets
  ZmqSocket router_{context_, ZMQ_ROUTER}, dealer_{context_, ZMQ_DEALER};
  const std::shared_ptr<QueuedByteCounter> queue_ = std::make_shared<QueuedByteCounter>();
};
INSTANTIATE_TEST_SUITE_P(Ends, ZmqFramesTest, ::testing::Values(End::kDealer, End::kRouter),
                         [](const auto& end) { return end.param == End::kDealer ? "Dealer" : "Router"; });

// What keeps a loop from sleeping on a message that its descriptor no longer tells of.
TEST_P(ZmqFramesTest, WhoSendsHearsOfWhatItsDescriptorTellsNoMore) {
  int silenced = 0, still_told = 0;
  for (int i = 0; i < 300 || silenced == 0 || still_told == 0; ++i) {
    ASSERT_LT(i, 30'000) << silenced << " times silenced, " << still_told << " times not";
    ReadAll(here());
    ReadAll(there());
    ASSERT_TRUE(Send(there()).reached);
    ASSERT_TRUE(Tells(here(), 5s));
    // ZeroMQ takes note of what has arrived when some time has passed since it last did.
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(i % 3);
    while (std::chrono::steady_clock::now() < end) {
    }
    const SendResult sent = Send(here());
    EXPECT_TRUE(sent.reached);
    if (Tells(here(), 0s)) {
      ++still_told;
    } else {
      ++silenced;
      ASSERT_TRUE(sent.consumed_signal) << "a loop would sleep on a message";
    }
  }
}

// The bytes of small messages stay below a bound, and none is counted for ever.
TEST_P(ZmqFramesTest, SmallMessagesAreCountedNowAndThen) {
  const Frame envelope = Frame::Copy(AsBytes(std::string(100, 'e')));
  const RoutingId* to = GetParam() == End::kRouter ? &kDealer : nullptr;
  uint64_t sent = 0, handed_over = 0;
  for (int i = 0; i < 500; ++i) {
    const uint64_t deferred = queue_->deferred();
    ASSERT_TRUE(SendMultipart(here().native(), to, envelope, {}, queue_, HeapAllocator()).reached);
    sent += envelope.size();
    if (queue_->deferred() < deferred) ++handed_over;
    EXPECT_LE(queue_->deferred(), QueuedByteCounter::kMaxDeferred);
  }
  EXPECT_EQ(handed_over, sent / QueuedByteCounter::kMaxDeferred);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (queue_->bytes() > 0 && std::chrono::steady_clock::now() < end) ReadAll(there());
  EXPECT_EQ(queue_->bytes(), 0u);
}

TEST_P(ZmqFramesTest, NobodyThereIsTold) {
  const RoutingId nobody = 77;
  EXPECT_FALSE(
      SendMultipart(router_.native(), &nobody, Frame::Copy(AsBytes("envelope")), {}, queue_, HeapAllocator())
          .reached);
  EXPECT_EQ(queue_->bytes(), 0u);
}

}  // namespace
}  // namespace sluice::transport

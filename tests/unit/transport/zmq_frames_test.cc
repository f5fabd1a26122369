#include "transport/zmq/zmq_frames.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <zmq.h>

#include <chrono>
#include <memory>

#include "transport/zmq/zmq_socket.h"

namespace sluice::transport {
namespace {

// A dealer and the router that it is connected to.
class ZmqFramesTest : public ::testing::Test {
 protected:
  ZmqFramesTest() {
    router_.Bind("tcp://127.0.0.1:*", "");
    dealer_.Set(ZMQ_ROUTING_ID, std::string_view(reinterpret_cast<const char*>(&kDealer), sizeof kDealer));
    dealer_.Connect(router_.LastEndpoint());
  }

  Sent Send(ZmqSocket& from, const RoutingId* to) {
    return SendMultipart(from.native(), to, Frame::Copy(AsBytes("envelope")), {}, queue_, HeapAllocator());
  }
  static bool Tells(const ZmqSocket& socket, int timeout_ms) {
    pollfd fd{.fd = socket.fd(), .events = POLLIN, .revents = 0};
    return poll(&fd, 1, timeout_ms) == 1;
  }
  // How many messages there were.
  static int ReadAll(ZmqSocket& socket, bool router) {
    for (int count = 0;; ++count) {
      Multipart message;
      if (ReceiveMultipart(socket.native(), router, {}, HeapAllocator(), &message) == Multipart::State::kNone)
        return count;
    }
  }
  // Whether one comes in time.
  static bool AwaitMessage(ZmqSocket& socket, bool router) {
    while (Tells(socket, 10'000)) {
      if (ReadAll(socket, router) > 0) return true;
    }
    return false;
  }

  static constexpr RoutingId kDealer = 1;
  void* const context_ = zmq_ctx_new();
  const std::unique_ptr<void, int (*)(void*)> end_{context_, &zmq_ctx_term};  // after the sockets
  ZmqSocket router_{context_, ZMQ_ROUTER}, dealer_{context_, ZMQ_DEALER};
  const std::shared_ptr<SendQueue> queue_ = std::make_shared<SendQueue>();
};

// What keeps a loop from sleeping on a message that its descriptor no longer tells of.
TEST_F(ZmqFramesTest, WhoSendsHearsOfWhatItsDescriptorTellsNoMore) {
  ASSERT_TRUE(Send(dealer_, nullptr).reached);
  ASSERT_TRUE(AwaitMessage(router_, true));
  int silenced = 0, still_told = 0;
  for (int i = 0; i < 300 || silenced == 0 || still_told == 0; ++i) {
    ASSERT_LT(i, 30'000) << silenced << " times silenced, " << still_told << " times not";
    ReadAll(dealer_, false);
    ReadAll(router_, true);
    ASSERT_TRUE(Send(router_, &kDealer).reached);
    ASSERT_TRUE(Tells(dealer_, 10'000));
    // ZeroMQ takes note of what has arrived when some time has passed since it last did.
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(i % 3);
    while (std::chrono::steady_clock::now() < end) {
    }
    const Sent sent = Send(dealer_, nullptr);
    EXPECT_TRUE(sent.reached);
    if (Tells(dealer_, 0)) {
      ++still_told;
    } else {
      ++silenced;
      ASSERT_TRUE(sent.took_note) << "a loop would sleep on a message";
    }
  }
}

TEST_F(ZmqFramesTest, NobodyThereIsTold) {
  router_.Set(ZMQ_ROUTER_MANDATORY, 1);
  const RoutingId nobody = 77;
  EXPECT_FALSE(Send(router_, &nobody).reached);
  EXPECT_EQ(queue_->bytes(), 0u);
}

}  // namespace
}  // namespace sluice::transport

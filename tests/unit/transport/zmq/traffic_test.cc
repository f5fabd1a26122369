#include "transport/zmq/traffic.h"

#include <gtest/gtest.h>

namespace sluice::transport {
namespace {

Frame Of(size_t bytes) {
  return Frame::Of(std::make_shared<Buffer>(bytes));
}

TEST(TrafficCounters, CountsWhatTheKernelCopies) {
  TrafficCounters sender, receiver;
  const Frame envelope = Of(60);
  const wire::Frames payload = {Of(1 << 20), Of(100)};
  CountSent(envelope, payload, &sender);
  CountReceived(envelope.bytes(), payload, &receiver);
  EXPECT_EQ(sender.sent(), (1u << 20) + 160);
  EXPECT_EQ(sender.received(), 0u);
  EXPECT_EQ(receiver.received(), sender.sent());
}

// ZeroMQ copies the batches of a large frame alone; a small one, as envelopes mostly are, is copied into
// ZeroMQ's message as well.
TEST(TrafficCounters, CountsCopiesWithinTheProcess) {
  TrafficCounters large, small;
  CountSent(Of(60), {Of(1 << 20)}, &large);
  EXPECT_EQ(large.copied(), 2 * 60u + 8192);
  CountSent(Of(60), {Of(1000)}, &small);
  EXPECT_EQ(small.copied(), 2 * 60u + 2 * 1000);
  TrafficCounters receiver;
  CountReceived(Of(60).bytes(), {Of(1000)}, &receiver);
  EXPECT_EQ(receiver.copied(), 60u + 1000);
}

}  // namespace
}  // namespace sluice::transport

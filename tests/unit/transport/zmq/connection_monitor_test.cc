// Which connections a ConnectionMonitor watches when their numbers change hands. That it cuts who floods:
// hostile_test.cc.
#include "transport/zmq/connection_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "sluice/error.h"
#include "unit/transport/tcp_pair.h"

namespace sluice::transport {
namespace {

using namespace testing;  // NOLINT: tcp_pair

constexpr size_t kTooMuch = 100 << 10;

class ConnectionMonitorTest : public ::testing::Test {
 protected:
  ConnectionMonitorTest() = default;
  ~ConnectionMonitorTest() override {
    monitor.reset();
    socket.Close();
    zmq_ctx_term(context);
  }
  void Report(uint16_t what, const TcpPair& pair, const std::string& address) {
    monitor->OnEvent(what, pair.fd(), address, Time());
  }
  void ReportAccepted(const TcpPair& pair) { Report(ZMQ_EVENT_ACCEPTED, pair, listener.address()); }
  void ReportClosed(const TcpPair& pair) { Report(ZMQ_EVENT_DISCONNECTED, pair, listener.address()); }
  // One look finds what has come, the next one cuts.
  size_t NumCut() { return monitor->Check(Time()).size() + monitor->Check(Time()).size(); }

  void* const context = zmq_ctx_new();
  ZmqSocket socket{context, ZMQ_ROUTER};
  std::vector<int> closed;
  std::unique_ptr<ConnectionMonitor> monitor = std::make_unique<ConnectionMonitor>(
      context, &socket,
      IngressLimits{
          .max_partial = kTooMuch / 2, .max_unread = kTooMuch / 2, .max_unauthenticated = kTooMuch / 2},
      10s, [this](int connection) { closed.push_back(connection); });
  Listener listener;
};

TEST_F(ConnectionMonitorTest, WhoSendsTooMuchIsCutOnce) {
  TcpPair pair(listener);
  ReportAccepted(pair);
  ASSERT_TRUE(pair.Take(kTooMuch));
  EXPECT_EQ(NumCut(), 1u);
  EXPECT_TRUE(pair.other().IsClosed());
  EXPECT_EQ(NumCut(), 0u);
  ReportClosed(pair);
  EXPECT_EQ(closed, std::vector<int>{pair.fd()});
}

// Unauthenticated connections may have taken them all; they are cut, and others come.
TEST_F(ConnectionMonitorTest, OnlyDescriptorsThatAreUsedUpForLongAreAnError) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan, which comes with it, looks at an exception through a pipe and finds no descriptor";
#endif
  const auto refuse = [this](Duration at, int reason = EMFILE) {
    try {
      monitor->OnEvent(ZMQ_EVENT_ACCEPT_FAILED, reason, "", Time(at));
      monitor->Check(Time(at));
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const auto refuse_from_to = [&](Duration from, Duration to) {
    std::string error;
    for (Duration at = from; at <= to && error.empty(); at += 500ms) error = refuse(at);
    return error;
  };
  const pid_t child = fork();
  if (child == 0) {  // whose limits nobody misses
    const rlimit few{64, 64};
    setrlimit(RLIMIT_NOFILE, &few);
    while (dup(0) >= 0) {
    }
    EXPECT_EQ(refuse_from_to(1s, 10s), "");
    monitor->OnEvent(ZMQ_EVENT_ACCEPTED, 1000, "ipc://a", Time(10500ms));  // one was cut
    EXPECT_EQ(refuse_from_to(11s, 20s), "");
    EXPECT_EQ(refuse_from_to(60s, 70s), "");  // the connections in between are not known of
    EXPECT_THAT(refuse(71s),
                ::testing::AllOf(::testing::HasSubstr("too few descriptors for one more connection"),
                                 ::testing::HasSubstr("64 of 64 are open")));
    EXPECT_THAT(refuse(72s, ENFILE), ::testing::HasSubstr("/proc/sys/fs/file-max"));
    _exit(HasFailure() ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// As long as a connection waits to be accepted, ZeroMQ sends half a million events a second: a look that did
// more than count them would not end.
TEST(ConnectionFlood, EveryLookEndsWhileUnauthenticatedPeersUseUpTheDescriptors) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan, which comes with it, looks at an exception through a pipe and finds no descriptor";
#endif
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {  // whose limits nobody misses
    close(ends[0]);
    const rlimit few{64, 64};
    setrlimit(RLIMIT_NOFILE, &few);
    void* const context = zmq_ctx_new();
    ZmqSocket socket(context, ZMQ_ROUTER);
    ConnectionMonitor monitor(context, &socket, {}, 10s, [](int) {});
    socket.Bind("tcp://127.0.0.1:*");
    const std::string address = socket.LastEndpoint() + "\n";
    EXPECT_EQ(write(ends[1], address.data(), address.size()), static_cast<ssize_t>(address.size()));
    Time now;
    std::string error;
    while (error.empty() && now < Time(1min)) {
      poll(nullptr, 0, 5);  // for events
      if (DescriptorsAreUsedUp()) now += 100ms;
      try {
        monitor.Check(now);
      } catch (const Error& refused) {
        error = refused.what();
      }
    }
    EXPECT_THAT(error, ::testing::HasSubstr("64 of 64 are open"));
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  close(ends[1]);
  std::string address;
  for (char c = 0; read(ends[0], &c, 1) == 1 && c != '\n';) address += c;
  close(ends[0]);
  std::vector<std::unique_ptr<RawTcp>> unauthenticated;
  for (int i = 0; i < 100; ++i) unauthenticated.push_back(std::make_unique<RawTcp>(address));
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Its end is on its way here.
TEST_F(ConnectionMonitorTest, AnotherConnectionUnderTheNumberIsNotCutForIt) {
  TcpPair pair(listener), other(listener);
  ReportAccepted(pair);
  ASSERT_TRUE(pair.Take(kTooMuch));
  EXPECT_TRUE(monitor->Check(Time()).empty());
  ASSERT_TRUE(other.Take(kTooMuch));
  pair.GiveNumberTo(other.fd());
  EXPECT_EQ(NumCut(), 0u);
  EXPECT_TRUE(other.Take(1));
  EXPECT_EQ(closed, std::vector<int>{pair.fd()});
  EXPECT_FALSE(monitor->IsOpen(pair.fd()));
}

TEST_F(ConnectionMonitorTest, AListeningSocketUnderTheNumberListensOn) {
  const TcpPair pair(listener);
  ReportAccepted(pair);
  ASSERT_TRUE(monitor->Check(Time()).empty());
  pair.GiveNumberTo(listener.fd());
  EXPECT_EQ(NumCut(), 0u);
  TcpPair next(listener);
  EXPECT_TRUE(next.Take(1));
}

TEST_F(ConnectionMonitorTest, ANumberThatCameAgainBeforeTheEventsWereReadIsTheLastOnes) {
  TcpPair pair(listener), other(listener);
  pair.GiveNumberTo(other.fd());
  ReportAccepted(pair);  // nothing can be learned of its peer any more
  ReportClosed(pair);
  EXPECT_FALSE(monitor->IsOpen(pair.fd()));
  ReportAccepted(pair);
  EXPECT_TRUE(monitor->IsOpen(pair.fd()));
  EXPECT_EQ(closed, std::vector<int>{pair.fd()});
  ASSERT_TRUE(other.Take(kTooMuch));
  EXPECT_EQ(NumCut(), 1u);
  EXPECT_TRUE(other.other().IsClosed());
}

TEST_F(ConnectionMonitorTest, ANumberThatIsNowSomebodyElsesIsNotWatched) {
  const Listener elsewhere;
  TcpPair pair(listener), other(elsewhere);
  pair.GiveNumberTo(other.fd());
  ReportAccepted(pair);
  ASSERT_TRUE(other.Take(kTooMuch));
  EXPECT_EQ(NumCut(), 0u);
  EXPECT_TRUE(other.Take(1));
}

TEST_F(ConnectionMonitorTest, AnAcceptanceThatIsToldTwiceEndsWhatWasThere) {
  const TcpPair pair(listener);
  ReportAccepted(pair);
  ReportAccepted(pair);
  EXPECT_TRUE(monitor->IsOpen(pair.fd()));
  EXPECT_EQ(closed, std::vector<int>{pair.fd()});
}

TEST_F(ConnectionMonitorTest, IpcIsToldAndNotWatched) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  monitor->OnEvent(ZMQ_EVENT_ACCEPTED, ends[0], "ipc://@somewhere", Time());
  EXPECT_EQ(NumCut(), 0u);
  EXPECT_TRUE(monitor->IsOpen(ends[0]));
  monitor->OnEvent(ZMQ_EVENT_DISCONNECTED, ends[0], "ipc://@somewhere", Time());
  EXPECT_EQ(closed, std::vector<int>{ends[0]});
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace sluice::transport

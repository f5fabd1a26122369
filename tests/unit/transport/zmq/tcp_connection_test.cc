// Tests transport/zmq/tcp_connection.h: connections that are found, read and cut by their descriptors, among
// others that must be left alone.
#include "transport/zmq/tcp_connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include "unit/transport/tcp_pair.h"

namespace sluice::transport {
namespace {

using namespace testing;  // NOLINT: tcp_pair

class TcpConnectionTest : public ::testing::Test {
 protected:
  Listener listener;
};

TEST_F(TcpConnectionTest, OnlyWhatWasAcceptedAtThePortIsFound) {
  TcpPair pair(listener);
  EXPECT_TRUE(FindTcpConnection(pair.fd(), listener.port()));
  const Listener elsewhere;
  EXPECT_FALSE(FindTcpConnection(pair.fd(), elsewhere.port()));
  EXPECT_FALSE(FindTcpConnection(listener.fd(), listener.port())) << "it listens";
  EXPECT_FALSE(FindTcpConnection(-1, listener.port()));
  int pipe[2], unix_pair[2];
  ASSERT_EQ(::pipe(pipe), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, unix_pair), 0);
  EXPECT_FALSE(FindTcpConnection(pipe[0], listener.port()));
  EXPECT_FALSE(FindTcpConnection(unix_pair[0], listener.port()));
  for (const int fd : {pipe[0], pipe[1], unix_pair[0], unix_pair[1]}) close(fd);
}

TEST_F(TcpConnectionTest, WhatHasArrivedAndIsNotReadDoesNotCount) {
  TcpPair pair(listener);
  const auto connection = FindTcpConnection(pair.fd(), listener.port());
  ASSERT_TRUE(connection);
  EXPECT_EQ(BytesTaken(*connection), 0u);
  ASSERT_TRUE(pair.Take(1000));
  ASSERT_TRUE(pair.other().Send("unread"));
  EXPECT_EQ(BytesTaken(*connection), 1000u);
}

TEST_F(TcpConnectionTest, WhoIsCutIsResetAndNamed) {
  TcpPair pair(listener);
  ASSERT_TRUE(pair.other().Send("unread"));
  const auto connection = FindTcpConnection(pair.fd(), listener.port());
  ASSERT_TRUE(connection);
  EXPECT_EQ(Abort(*connection), "127.0.0.1");
  EXPECT_TRUE(pair.other().IsClosed());
  char byte;
  EXPECT_LE(recv(pair.fd(), &byte, 1, 0), 0) << "what it had received is still there";
}

TEST_F(TcpConnectionTest, AnotherConnectionUnderItsNumberIsLeftAlone) {
  TcpPair pair(listener), other(listener);
  const auto connection = FindTcpConnection(pair.fd(), listener.port());
  ASSERT_TRUE(connection);
  pair.GiveNumberTo(other.fd());
  EXPECT_EQ(BytesTaken(*connection), std::nullopt);
  EXPECT_EQ(Abort(*connection), std::nullopt);
  EXPECT_TRUE(other.Take(1));
}

TEST_F(TcpConnectionTest, AListeningSocketUnderItsNumberIsLeftAlone) {
  TcpPair pair(listener);
  const auto connection = FindTcpConnection(pair.fd(), listener.port());
  ASSERT_TRUE(connection);
  pair.GiveNumberTo(listener.fd());
  EXPECT_EQ(BytesTaken(*connection), std::nullopt);
  EXPECT_EQ(Abort(*connection), std::nullopt);
  TcpPair next(listener);
  EXPECT_TRUE(next.Take(1));
}

TEST_F(TcpConnectionTest, AFreeNumberIsNoConnection) {
  std::optional<TcpConnection> connection;
  {
    const TcpPair pair(listener);
    connection = FindTcpConnection(pair.fd(), listener.port());
    ASSERT_TRUE(connection);
  }
  EXPECT_EQ(BytesTaken(*connection), std::nullopt);
  EXPECT_EQ(Abort(*connection), std::nullopt);
}

std::string CongestionControlOf(int fd) {
  char name[16] = "";
  socklen_t size = sizeof name;
  EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
  return name;
}

TEST_F(TcpConnectionTest, NothingIsPacedWithinAHost) {
  TcpPair pair(listener);
  const std::string system = CongestionControlOf(pair.fd());
  for (const std::string_view other : {"bbr", "cubic"})
    setsockopt(pair.fd(), IPPROTO_TCP, TCP_CONGESTION, other.data(), static_cast<socklen_t>(other.size()));
  if (CongestionControlOf(pair.fd()) == "reno") GTEST_SKIP() << "this kernel lets nobody choose but Reno";
  DoNotPaceWithinHost(pair.fd());
  EXPECT_EQ(CongestionControlOf(pair.fd()), "reno");
  EXPECT_EQ(CongestionControlOf(pair.other().fd()), system) << "each end has its own";
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  for (const int other : {listener.fd(), pipe[0], -1}) DoNotPaceWithinHost(other);
  EXPECT_EQ(CongestionControlOf(listener.fd()), system);
  close(pipe[0]);
  close(pipe[1]);
}

sockaddr_storage EndAt(const std::string& address) {
  sockaddr_storage end{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(end);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(end);
  if (inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    end.ss_family = AF_INET;
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr), 1) << address;
    end.ss_family = AF_INET6;
  }
  return end;
}

TEST(AreOneHost, ByTheirAddresses) {
  const auto are = [](const char* a, const char* b) { return AreOneHost(EndAt(a), EndAt(b)); };
  EXPECT_TRUE(are("10.0.0.1", "10.0.0.1"));
  EXPECT_TRUE(are("10.0.0.1", "::ffff:10.0.0.1"));
  EXPECT_TRUE(are("127.0.0.1", "127.0.1.1"));
  EXPECT_TRUE(are("127.0.0.1", "::ffff:127.0.0.2"));
  EXPECT_TRUE(are("::1", "127.0.0.1"));
  EXPECT_TRUE(are("fe80::1", "fe80::1"));
  EXPECT_FALSE(are("10.0.0.1", "10.0.0.2"));
  EXPECT_FALSE(are("10.0.0.1", "127.0.0.1"));
  EXPECT_FALSE(are("fe80::1", "fe80::2"));
  EXPECT_FALSE(are("::7f00:1", "127.0.0.1")) << "not mapped";
}

}  // namespace
}  // namespace sluice::transport

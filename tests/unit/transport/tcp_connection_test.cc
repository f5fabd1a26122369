#include "transport/zmq/tcp_connection.h"

#include <fcntl.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace sluice::transport

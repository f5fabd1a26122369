// A TCP connection of which this process has both ends.
#pragma once

#include <gtest/gtest.h>

#include "base/strings.h"
#include "unit/transport/raw_peer.h"

namespace sluice::transport::testing {

class Listener {
 public:
  // If `listens` is false, the port is bound but connections to it are refused.
  explicit Listener(bool listens = true) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof here;
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&here), size), 0);
    EXPECT_EQ(listens ? listen(fd_, 16) : 0, 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&here), &size), 0);
    port_ = ntohs(here.sin_port);
  }
  ~Listener() { close(fd_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int fd() const { return fd_; }
  uint16_t port() const { return port_; }
  std::string address() const { return StrCat("tcp://127.0.0.1:", port_); }

 private:
  int fd_;
  uint16_t port_ = 0;
};

class TcpPair {
 public:
  explicit TcpPair(const Listener& listener)
      : other_(listener.address()), fd_(accept(listener.fd(), nullptr, nullptr)) {}
  ~TcpPair() { close(fd_); }
  TcpPair(const TcpPair&) = delete;
  TcpPair& operator=(const TcpPair&) = delete;

  int fd() const { return fd_; }  // the end that was accepted
  RawTcp& other() { return other_; }
  // Transfers so many bytes from the other end. Returns false if they do not arrive.
  bool Take(size_t bytes) {
    std::string taken(bytes, '\0');
    return other_.Send(taken) && recv(fd_, taken.data(), bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
  }
  // Makes `fd`'s file take over the number of this end's descriptor. The connection stays open only if
  // another descriptor refers to it.
  void GiveNumberTo(int fd) const { EXPECT_EQ(dup2(fd, fd_), fd_); }

 private:
  RawTcp other_;
  const int fd_;
};

}  // namespace sluice::transport::testing

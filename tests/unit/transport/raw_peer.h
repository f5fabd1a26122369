// Peers that do not use the transport: raw TCP connections and raw ZeroMQ sockets, which may send anything.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <cstdio>
#include <string>
#include <vector>

#include "transport/zmq/context.h"

namespace sluice::transport::testing {

// A TCP connection to "tcp://127.0.0.1:port" or "tcp://[::1]:port" that sends any bytes. Send and
// receive time out after 2 s.
class RawTcp {
 public:
  explicit RawTcp(const std::string& address)
      : RawTcp(address.find('[') != std::string::npos,
               htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))))) {}
  ~RawTcp() { close(fd_); }
  RawTcp(const RawTcp&) = delete;
  RawTcp& operator=(const RawTcp&) = delete;

  bool connected() const { return connected_; }
  // Returns false once the other end has closed the connection or has stopped reading.
  bool Send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<size_t>(n);
    }
    return true;
  }
  // Receives `count` bytes. Returns false if they do not arrive.
  bool Hears(size_t count) {
    std::string bytes(count, '\0');
    return recv(fd_, bytes.data(), count, MSG_WAITALL) == static_cast<ssize_t>(count);
  }
  // Reads until the other end closes the connection. Returns false if it does not.
  bool IsClosed() {
    char buffer[4096];
    ssize_t n;
    while ((n = recv(fd_, buffer, sizeof buffer, 0)) > 0) {
    }
    return n == 0 || errno == ECONNRESET;
  }

  int fd() const { return fd_; }

 private:
  RawTcp(bool ipv6, in_port_t port) : fd_(socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = port;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 to6{};
    to6.sin6_family = AF_INET6;
    to6.sin6_port = port;
    to6.sin6_addr = in6addr_loopback;
    const timeval patience{.tv_sec = 2, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const auto* address =
        ipv6 ? reinterpret_cast<const sockaddr*>(&to6) : reinterpret_cast<const sockaddr*>(&to);
    connected_ = connect(fd_, address, ipv6 ? sizeof to6 : sizeof to) == 0;
  }

  int fd_;
  bool connected_;
};

// Returns a ZMTP greeting (https://rfc.zeromq.org/spec/23/): signature, version 3.0, mechanism, as-server,
// filler.
inline std::string ZmtpGreeting(std::string mechanism) {
  mechanism.resize(20, '\0');
  std::string greeting("\xff\0\0\0\0\0\0\0\x01\x7f\x03\x00", 12);
  return greeting + mechanism + std::string(32, '\0');
}

// Sends all that a DEALER with these credentials sends before its first message, and receives the greeting
// and the WELCOME command (https://rfc.zeromq.org/spec/24/). Returns false if the peer does not accept it.
inline bool JoinByHand(RawTcp* tcp, const ZmqContext& credentials) {
  const auto text = [](const std::string& s) { return std::string(1, static_cast<char>(s.size())) + s; };
  const auto command = [&](const std::string& body) { return "\x04" + text(body); };
  tcp->Send(ZmtpGreeting("PLAIN") +
            command(text("HELLO") + text(credentials.user()) + text(credentials.password())));
  if (!tcp->Hears(64 + command(text("WELCOME")).size())) return false;
  const std::string type = std::string("\x0bSocket-Type\0\0\0\x06", 16) + "DEALER";
  const std::string id = std::string("\x08Identity\0\0\0\x08", 13) + "raw-peer";
  return tcp->Send(command(text("INITIATE") + type + id));
}

// A DEALER that sends any frames. It has the job's credentials, or none if `credentials` is null.
class RawDealer {
 public:
  RawDealer(const std::string& address, const ZmqContext* credentials, const std::string& id = "a-dealer") {
    if (credentials != nullptr) {
      zmq_setsockopt(socket_, ZMQ_PLAIN_USERNAME, credentials->user().data(), credentials->user().size());
      zmq_setsockopt(socket_, ZMQ_PLAIN_PASSWORD, credentials->password().data(),
                     credentials->password().size());
    }
    zmq_setsockopt(socket_, ZMQ_ROUTING_ID, id.data(), id.size());
    const int no_linger = 0, patience = 10000, unbounded = 0;
    zmq_setsockopt(socket_, ZMQ_LINGER, &no_linger, sizeof no_linger);
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &patience, sizeof patience);
    zmq_setsockopt(socket_, ZMQ_SNDHWM, &unbounded, sizeof unbounded);
    zmq_connect(socket_, address.c_str());
  }
  ~RawDealer() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  RawDealer(const RawDealer&) = delete;
  RawDealer& operator=(const RawDealer&) = delete;

  void Send(const std::vector<std::string>& frames) {
    for (size_t i = 0; i < frames.size(); ++i) {
      zmq_send(socket_, frames[i].data(), frames[i].size(), i + 1 < frames.size() ? ZMQ_SNDMORE : 0);
    }
  }
  // Returns one frame, or "" after ten seconds.
  std::string Receive() {
    std::string frame(1 << 16, '\0');
    const int size = zmq_recv(socket_, frame.data(), frame.size(), 0);
    frame.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return frame;
  }

 private:
  void* context_ = zmq_ctx_new();
  void* socket_ = zmq_socket(context_, ZMQ_DEALER);
};

// Returns the resident memory of this process.
inline int64_t ResidentBytes() {
  long total = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  const int fields = fscanf(file, "%ld %ld", &total, &resident);
  fclose(file);
  return fields == 2 ? int64_t{resident} * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace sluice::transport::testing

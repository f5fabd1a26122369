// The connections that others make to a bound socket: who sends without end is shown out. Internal to zmq/.
//
// ZeroMQ's monitor tells which descriptors it has accepted, the kernel how many bytes came by each;
// IngressLimiter compares that with the messages read. A connection that is cut looks to both sides like any
// that broke: ZeroMQ throws away what it had of an unfinished message, an honest peer connects again and
// repeats itself. Only TCP is watched: ipc lets in no other user. One thread at a time.
//
// Descriptors are ZeroMQ's: its thread tells that it closes one and then does, so a number may mean something
// else before that is read here. tcp_connection.h keeps what is done to a connection from reaching another.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "transport/zmq/ingress_limiter.h"
#include "transport/zmq/tcp_connection.h"
#include "transport/zmq/zmq_socket.h"

namespace sluice::transport {

class ConnectionMonitor {
 public:
  using OnClosed = std::function<void(int connection)>;

  // Before `socket` is bound; outlived by it. Whatever was open and closes is told to `on_closed`, during
  // calls of the methods below. Check throws Error(kResourceExhausted) where no connection could be accepted
  // for `patience`, for want of descriptors: longer than ZeroMQ lets who brings no message stay.
  ConnectionMonitor(void* context, ZmqSocket* socket, const IngressLimits& limits, Duration patience,
                    OnClosed on_closed);
  ~ConnectionMonitor();
  ConnectionMonitor(const ConnectionMonitor&) = delete;
  ConnectionMonitor& operator=(const ConnectionMonitor&) = delete;

  // A message was read; `connection` is the descriptor that it came by. `known`: its sender has been heard by
  // it before. Otherwise it may be a new one, with the number of one that has closed.
  void OnMessage(int connection, uint64_t wire_bytes, bool known, Time now);
  bool IsOpen(int connection) const { return open_.contains(connection); }
  // Everything whole that the socket had has been read.
  void OnAllRead() { all_read_ = true; }
  Time next_check() const { return next_check_; }
  // At next_check(), or later. Those who were cut, in words.
  std::vector<std::string> Check(Time now);
  // As ZeroMQ's monitor tells it, with an address of this end: for tests, otherwise read by the methods
  // above.
  void OnEvent(uint16_t what, int connection, std::string_view address, Time now);

 private:
  void ReadEvents(Time now);
  void Close(int connection);
  void ReportRefusals(Time now);

  ZmqSocket* const socket_;
  ZmqSocket monitor_;
  const Duration patience_;
  const OnClosed on_closed_;
  std::unordered_map<int, TcpConnection> open_;  // ipc: without a cookie
  IngressLimiter ingress_limiter_;               // of TCP
  Time next_check_{};
  bool all_read_ = false;  // since the last look
  struct Refusals {        // of connections for want of descriptors, with no acceptance in between
    Time first, last;
    int error;  // of the last one
  };
  std::optional<Refusals> refusals_;
  Time next_refusal_report_{}, next_warning_{};
};

}  // namespace sluice::transport

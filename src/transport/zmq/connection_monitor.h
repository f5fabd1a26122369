// Watches the connections of a bound socket, and cuts those that send without end. Internal to zmq/.
//
// ZeroMQ's monitor reports which descriptors it has accepted, and the kernel how many bytes came by each;
// IngressLimiter compares these with the messages read. To both sides a cut connection looks like any broken
// one: ZeroMQ drops what it has of an unfinished message, and an honest peer reconnects and resends. Only TCP
// is watched, since ipc admits no other user. One thread at a time.
//
// The descriptors are ZeroMQ's: its thread reports that it closes one and then closes it, so the number may
// name something else before the report is read here. tcp_connection.h makes sure that an operation on one
// connection does not reach another.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "transport/zmq/ingress_limiter.h"
#include "transport/zmq/socket.h"
#include "transport/zmq/tcp_connection.h"

namespace sluice::transport {

class ConnectionMonitor {
 public:
  using OnClosed = std::function<void(int connection)>;

  // To be constructed before `socket` is bound; `socket` must outlive it. `on_closed` is called for every
  // connection that was open and closes, during calls of the methods below. When for want of descriptors no
  // connection could be accepted for `patience`, Check throws Error(kResourceExhausted); `patience` must be
  // longer than ZeroMQ keeps a connection that brings no message.
  ConnectionMonitor(void* context, ZmqSocket* socket, const IngressLimits& limits, Duration patience,
                    OnClosed on_closed);
  ~ConnectionMonitor();
  ConnectionMonitor(const ConnectionMonitor&) = delete;
  ConnectionMonitor& operator=(const ConnectionMonitor&) = delete;

  // A message was read that came by the descriptor `connection`. `known`: its sender has sent by that
  // descriptor before; otherwise the connection may be a new one, with the number of one that has closed.
  void OnMessage(int connection, uint64_t wire_bytes, bool known, Time now);
  bool IsOpen(int connection) const { return open_.contains(connection); }
  // All complete messages that the socket had have been read.
  void OnAllRead() { all_read_ = true; }
  Time next_check() const { return next_check_; }
  // To be called at next_check() or later. Returns a text for every connection that was cut.
  std::vector<std::string> Check(Time now);
  // Handles one event of ZeroMQ's monitor; `address` is this end's. The methods above call it for the events
  // that they read; it is public for tests.
  void OnEvent(uint16_t what, int connection, std::string_view address, Time now);

 private:
  void ReadEvents(Time now);
  void Close(int connection);
  void ReportRefusals(Time now);

  ZmqSocket* const socket_;
  ZmqSocket monitor_;
  const Duration patience_;
  const OnClosed on_closed_;
  std::unordered_map<int, TcpConnection> open_;  // by descriptor; an ipc connection has no cookie
  IngressLimiter ingress_limiter_;               // knows the TCP connections only
  Time next_check_{};
  bool all_read_ = false;  // at some time since the last Check
  // A series of connections refused for want of descriptors, with none accepted in between.
  struct Refusals {
    Time first, last;
    int error;  // errno of the last one
  };
  std::optional<Refusals> refusals_;
  Time next_refusal_report_{}, next_warning_{};
};

}  // namespace sluice::transport

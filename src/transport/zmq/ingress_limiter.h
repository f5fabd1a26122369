// Counts how much each accepted connection has sent that became no message. Internal to zmq/.
//
// libzmq returns a multipart only when it is complete, and queues its frames without a bound: a peer that
// sends frames without end would fill the memory, whatever ZMQ_MAXMSGSIZE and ZMQ_RCVHWM say. This class does
// the bookkeeping that finds such connections; ConnectionMonitor asks the operating system for the counts and
// cuts the connections. Deterministic: time and counts are arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "base/clock.h"

namespace sluice::transport {

struct IngressLimits {
  // Bytes of one connection after all its complete messages were read: of the message that is arriving.
  uint64_t max_partial = 0;
  // Bytes of one connection whether messages were read or not; more than an honest peer has in flight.
  uint64_t max_unread = 0;
  // Bytes of all connections together that never brought a message: they may not even have this job's secret.
  uint64_t max_unauthenticated = 0;
  // ZeroMQ's own heartbeats are no messages, so this many bytes of each interval are not counted.
  uint64_t heartbeat_bytes = 32;
  Duration heartbeat_interval = 1s;
};

class IngressLimiter {
 public:
  struct Excess {
    int connection = 0;
    uint64_t bytes = 0;  // received, but not part of a message that was read
  };

  explicit IngressLimiter(const IngressLimits& limits) : limits_(limits) {}

  // A connection is named by its descriptor, whose number may be reused once it is closed.
  void OnAccepted(int connection, Time now) { connections_[connection] = {.accepted = now}; }
  void OnClosed(int connection) { connections_.erase(connection); }
  // A complete message of `wire_bytes` bytes on the wire was read from `connection`.
  void OnMessage(int connection, uint64_t wire_bytes);

  // Called at intervals. Returns the connections that send too much, judged by what had arrived at the last
  // call, and forgets them. `received(connection)`: bytes that ZeroMQ has read from it so far. `all_read`:
  // at some time since the last call all complete messages had been read.
  std::vector<Excess> FindExcess(Time now, bool all_read, const std::function<uint64_t(int)>& received);
  // Whether a connection has sent so much that the next call cuts it unless its messages are read by then.
  bool near_limit() const { return near_limit_; }
  size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    Time accepted{};
    uint64_t delivered = 0;         // bytes of messages that were read
    uint64_t received = 0;          // at the last call of FindExcess
    bool has_sent_message = false;  // it has brought a message
  };
  uint64_t Outstanding(const Connection& connection, Time now) const;
  void CutUnauthenticated(std::vector<Excess> unauthenticated, std::vector<Excess>* cut) const;

  const IngressLimits limits_;
  std::unordered_map<int, Connection> connections_;
  bool near_limit_ = false;
};

}  // namespace sluice::transport

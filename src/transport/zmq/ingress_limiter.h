// How much each accepted connection has sent that became no message. Internal to zmq/.
//
// libzmq shows a multipart only when it is whole and takes frames as long as they come: who sends without end
// would fill the memory, whatever ZMQ_MAXMSGSIZE and ZMQ_RCVHWM say. This is the bookkeeping that finds such
// connections; ConnectionMonitor asks the operating system and cuts them. Deterministic: time and counts are
// arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "base/clock.h"

namespace sluice::transport {

struct IngressLimits {
  // Of one connection, of which everything whole has been read: a message that is on its way.
  uint64_t max_partial = 0;
  // Of one connection, read or not. Beyond what an honest peer has in flight.
  uint64_t max_unread = 0;
  // Of all connections together by which no message ever came: they may not even have this job's secret.
  uint64_t max_unauthenticated = 0;
  // ZeroMQ's own heartbeats are no messages: so much is forgiven each interval.
  uint64_t heartbeat_bytes = 32;
  Duration heartbeat_interval = 1s;
};

class IngressLimiter {
 public:
  struct Excess {
    int connection = 0;
    uint64_t bytes = 0;  // received, and no part of a message that was read
  };

  explicit IngressLimiter(const IngressLimits& limits) : limits_(limits) {}

  // Connections are named by their descriptors, which may come again once closed.
  void OnAccepted(int connection, Time now) { connections_[connection] = {.accepted = now}; }
  void OnClosed(int connection) { connections_.erase(connection); }
  // A whole message of so many bytes on the wire was read.
  void OnMessage(int connection, uint64_t wire_bytes);

  // Once in a while: who sends too much, judged by what had arrived at the last call. `received(connection)`:
  // bytes that ZeroMQ has taken from it so far. `all_read`: everything whole was read at some time
  // since the last call.
  std::vector<Excess> FindExcess(Time now, bool all_read, const std::function<uint64_t(int)>& received);
  // Whether someone has sent so much that it will be cut at the next call unless it is read by then.
  bool near_limit() const { return near_limit_; }
  size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    Time accepted{};
    uint64_t delivered = 0;
    uint64_t received = 0;  // at the last look
    bool heard = false;
  };
  uint64_t Outstanding(const Connection& connection, Time now) const;
  void CutUnauthenticated(std::vector<Excess> unauthenticated, std::vector<Excess>* cut) const;

  const IngressLimits limits_;
  std::unordered_map<int, Connection> connections_;
  bool near_limit_ = false;
};

}  // namespace sluice::transport

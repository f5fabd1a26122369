// The connections that others make to a bound socket: who sends without end is shown out. Internal to zmq/.
//
// ZeroMQ's monitor tells which descriptors it has accepted, the kernel how many bytes came by each; Inflow
// compares that with the messages read. A connection that is cut looks to both sides like any that broke:
// ZeroMQ throws away what it had of an unfinished message, an honest peer connects again and repeats itself.
// Only TCP is watched: ipc lets in no other user. One thread at a time.
#pragma once

#include <string>
#include <vector>

#include "transport/zmq/inflow.h"
#include "transport/zmq/zmq_socket.h"

namespace sluice::transport {

class Door {
 public:
  // Before `socket` is bound; outlived by it.
  Door(void* context, ZmqSocket* socket, const InflowLimits& limits);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  // A message was read; `connection` is the descriptor that it came by.
  void OnMessage(int connection, uint64_t wire_bytes, Time now);
  // Everything whole that the socket had has been read.
  void OnAllRead() { all_read_ = true; }
  Time next_look() const { return next_look_; }
  // At next_look(), or later. Those who were cut, in words.
  std::vector<std::string> Look(Time now);

 private:
  void ReadEvents(Time now);

  ZmqSocket* const socket_;
  ZmqSocket monitor_;
  Inflow inflow_;
  Time next_look_{};
  bool all_read_ = false;  // since the last look
};

}  // namespace sluice::transport

// A loop that runs on a thread of its own over a real network, and its options. loop_factory.h makes them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/payload_sharing.h"
#include "transport/traffic_counters.h"
#include "transport/transport.h"
#include "wire/codec.h"

namespace sluice::transport {

struct LoopOptions {
  std::string name = "loop";              // for logs; also the thread's name
  wire::Role role = wire::Role::kWorker;  // the sender's role in messages that the loop itself sends
  uint64_t job = 0;                       // messages of another job are refused
  // Addresses to bind: tcp://host:port (port 0: any free one), tcp://[::1]:0, ipc://path. Empty: no peer can
  // connect to this loop.
  std::vector<std::string> bind;
  std::string bind_reason;  // why these addresses were chosen; for logs
  std::string bind_advice;  // which variable to set; ends the error message when an address is in use
  // Payloads for peers on the same host are leased instead of being sent. Empty: every payload is sent.
  PayloadSharingMaker share_payloads;
  bool requires_shared_memory = false;  // the loop fails when it can share no memory with a server
  wire::Limits limits;
  // Per peer: while more is queued, Network::HasRoom is false, and messages that can wait do.
  uint64_t room_bytes = uint64_t{32} << 20;
  uint64_t max_queued_bytes = uint64_t{256} << 20;  // per peer; more is dropped and counted
  // Bytes from all connections together that never brought a message; beyond it those that sent most are cut.
  uint64_t max_unauthenticated_bytes = uint64_t{8} << 20;
  // How many accepted peers are remembered after their connections have closed: each of them keeps its PeerId
  // when it reconnects. The peers that have been gone longest are forgotten first.
  size_t max_gone_peers = 4096;
  Duration linger = 2s;              // how long the loop's end waits until sent messages have left
  Duration heartbeat_interval = 1s;  // the transport's own heartbeats find dead connections
  Duration heartbeat_timeout = 10s;
  Duration handshake_timeout = 5s;
  Duration connect_patience = 10s;  // time without a connection between two warnings
  double drop_received = 0;         // probability that an arrived message is dropped; for tests of resending
  uint64_t drop_seed = 1;
  int bad_messages_until_mute = 16;  // from one peer
  // How long a peer is muted. Well below the protocol's heartbeat timeout, so that an honest peer that makes
  // mistakes is not taken for dead.
  Duration mute = 3s;
  // Called on the loop's thread when an error ends the loop before its machine is done; `why` is the text of
  // failure(). StateMachine::OnEnd has been called before; this call is for a server's other loops, which the
  // machine does not know. May be null.
  std::function<void(const std::string& why)> on_failure;
  std::shared_ptr<TrafficCounters> traffic = std::make_shared<TrafficCounters>();  // this loop adds to these
};

// Thread safety: all methods may be called from any thread; the destructor must not run on the loop's own. It
// calls Stop.
class ThreadLoop : public Loop {
 public:
  // Ends the loop, and returns when it has ended. Messages that are still queued are lost, unless the machine
  // was Done. Must not be called on the loop's own thread.
  virtual void Stop() = 0;
  // Waits until the loop has ended, because its machine is done or for another reason; returns false after
  // `timeout`.
  virtual bool Join(Duration timeout) = 0;
  // Returns the error that ended the loop before its machine was done: the text of an exception, thrown by
  // the machine or the transport. Empty otherwise.
  virtual std::string failure() const = 0;
};

}  // namespace sluice::transport

// A Loop on a thread of its own over ZeroMQ: one ROUTER for the peers that connect, one DEALER per Connect.
//
// A message is one multipart: the envelope, then the payload frames. Payload is copied neither on sending nor
// on receiving, except frames so small that copying is cheaper. What arrives is bounded, decoded, checked and
// counted before the machine sees it. Between processes of one host large payloads are leased instead: shm/.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/shm/shared_heap.h"
#include "transport/transport.h"
#include "transport/zmq/traffic_counters.h"
#include "transport/zmq/zmq_context.h"
#include "wire/codec.h"

namespace sluice::transport {

struct ZmqLoopOptions {
  std::string name = "loop";              // for logs; also the thread's name
  wire::Role role = wire::Role::kWorker;  // the sender's role in messages that the loop itself sends
  uint64_t job = 0;                       // messages of another job are refused
  // Addresses to bind: tcp://host:port (port 0: any free one), tcp://[::1]:0, ipc://path. Empty: no peer can
  // connect to this loop.
  std::vector<std::string> bind;
  std::string bind_reason;  // why these addresses were chosen; for logs
  std::string bind_advice;  // which variable to set; ends the error message when an address is in use
  // Payloads for peers on the same host are leased from this heap instead of being sent, and payloads that
  // already lie in it are not copied for that. Null: every payload is sent.
  std::shared_ptr<SharedHeap> shared_heap;
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
  Duration heartbeat_interval = 1s;  // of ZeroMQ's own heartbeats, which find dead connections
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
  // failure(). Machine::OnEnd has been called before; this call is for a server's other loops, which the
  // machine does not know. May be null.
  std::function<void(const std::string& why)> on_failure;
  std::shared_ptr<TrafficCounters> traffic = std::make_shared<TrafficCounters>();  // this loop adds to these
};

struct ZmqCounters {
  uint64_t sent = 0;
  uint64_t received = 0;       // delivered to the machine
  uint64_t overflowed = 0;     // dropped at the bound of queued bytes
  uint64_t unreachable = 0;    // dropped: the peer is gone
  uint64_t bad = 0;            // dropped: not decodable, over a limit, of another version or job
  uint64_t muted = 0;          // dropped: the sender was muted or disconnected
  uint64_t thrown_away = 0;    // dropped by drop_received
  uint64_t cut = 0;            // connections that were reset because they sent too much that was no message
  uint64_t leased = 0;         // payload frames that were leased instead of sent
  uint64_t leased_copies = 0;  // of these, frames that were copied to shared memory first
  uint64_t leases_opened = 0;  // payload frames read in their sender's memory
  uint64_t forgotten = 0;      // peers whose connections had closed, at the bound of max_gone_peers
};

class ZmqDriver;

// Thread safety: all methods may be called from any thread; the destructor must not run on the loop's own.
class ZmqLoop final : public Loop {
 public:
  // Binds the addresses, then starts the thread. Throws Error; where an address cannot be bound, it names it.
  ZmqLoop(std::shared_ptr<ZmqContext> context, std::shared_ptr<Machine> machine, ZmqLoopOptions options);
  ~ZmqLoop() override;  // calls Stop

  bool Post(Task task) override;
  bool PostOrRun(Task task) override;
  void DriveUntil(const std::function<bool()>& done, Time deadline) override;
  const std::vector<std::string>& addresses() const override;

  // Ends the loop, and returns when it has ended. Messages that are still queued are lost, unless the machine
  // was Done.
  void Stop();
  // Waits until the loop has ended, because its machine is done or for another reason; returns false after
  // `timeout`.
  bool Join(Duration timeout);
  // Returns the error that ended the loop before its machine was done: the text of an exception, thrown by
  // the machine or the transport. Empty otherwise.
  std::string failure() const;
  ZmqCounters counters() const;

 private:
  std::unique_ptr<ZmqDriver> driver_;
};

}  // namespace sluice::transport

// A Loop on a thread of its own over ZeroMQ: one ROUTER where others connect, one DEALER per Connect.
//
// A message is one multipart: envelope, then its payload frames as they are. Payload is copied neither way,
// except frames so small that copying is cheaper. What arrives is bounded, decoded, checked and counted
// before the machine sees it. Between processes of a host large payloads stay where they are: shm/.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/shm/shared_heap.h"
#include "transport/transport.h"
#include "transport/zmq/traffic.h"
#include "transport/zmq/zmq_context.h"
#include "wire/codec.h"

namespace sluice::transport {

struct ZmqLoopOptions {
  std::string name = "loop";              // for people; the thread's name too
  wire::Role role = wire::Role::kWorker;  // who signs the loop's own refusals
  uint64_t job = 0;                       // messages of another job are refused
  std::vector<std::string>
      bind;  // tcp://host:port (port 0: any free one), tcp://[::1]:0, ipc://path; empty: nobody connects
  std::string bind_reason;  // why there: for people
  std::string bind_advice;  // ends the message when an address is in use: which variable to set
  // Payloads are lent to peers of the same host in place of being sent, and what lies here is not copied for
  // it. Null: every payload is sent.
  std::shared_ptr<SharedHeap> shared_heap;
  bool requires_shared_memory = false;  // where it cannot be had with a server, the loop fails
  wire::Limits limits;
  // Per peer: with more queued it has no room (Network::HasRoom), and what can wait waits.
  uint64_t room_bytes = uint64_t{32} << 20;
  uint64_t max_queued_bytes = uint64_t{256} << 20;  // per peer; more is dropped and counted
  // Of all connections together that never brought a message: beyond it the greediest are cut.
  uint64_t max_unauthenticated_bytes = uint64_t{8} << 20;
  // Of those who connected here and whose connections have closed: so many may come back and be who they
  // were.
  size_t max_gone_peers = 4096;
  Duration linger = 2s;              // how long the end waits for what was sent to leave
  Duration heartbeat_interval = 1s;  // of ZeroMQ's own heartbeats, which find dead connections
  Duration heartbeat_timeout = 10s;
  Duration handshake_timeout = 5s;
  Duration connect_patience = 10s;  // after so long without a connection, and each so long again, a warning
  double drop_received = 0;  // the chance that a message that arrived is thrown away: for tests of resending
  uint64_t drop_seed = 1;
  int bad_messages_until_mute = 16;  // from one peer
  Duration mute = 3s;  // well below a heartbeat timeout: mistakes of an honest peer are no death
  // On the loop's thread, when an error ends it before its machine is done: what failure() says. The machine
  // has been told, too, but not those who know nothing of each other: a server's other loops. May be null.
  std::function<void(const std::string& why)> on_failure;
  std::shared_ptr<TrafficCounters> traffic = std::make_shared<TrafficCounters>();  // what this loop adds to
};

struct ZmqCounters {
  uint64_t sent = 0;
  uint64_t received = 0;       // handed to the machine
  uint64_t overflowed = 0;     // dropped at the bound of queued bytes
  uint64_t unreachable = 0;    // dropped: the peer is gone
  uint64_t bad = 0;            // dropped: not decodable, over a limit, of another version or job
  uint64_t muted = 0;          // dropped: their senders were muted
  uint64_t thrown_away = 0;    // by drop_received
  uint64_t cut = 0;            // connections that sent too much that was no message
  uint64_t leased = 0;         // payload frames, in place of being sent
  uint64_t leased_copies = 0;  // of them those that were copied to shared memory first
  uint64_t leases_opened = 0;  // payload frames read where their sender has them
  uint64_t forgotten = 0;      // peers whose connections had closed, at the bound of max_gone_peers
};

class ZmqDriver;

// Thread safety: all methods may be called from any thread; the destructor from none of the loop's own.
class ZmqLoop final : public Loop {
 public:
  // Binds, then starts the thread. Throws Error that names the address.
  ZmqLoop(std::shared_ptr<ZmqContext> context, std::shared_ptr<Machine> machine, ZmqLoopOptions options);
  ~ZmqLoop() override;  // stops it

  bool Post(Task task) override;
  bool PostOrRun(Task task) override;
  void DriveUntil(const std::function<bool()>& done, Time deadline) override;
  const std::vector<std::string>& addresses() const override;

  // Ends the loop at once: what is still queued is lost, unless the machine was Done. Returns when it has
  // ended.
  void Stop();
  // Waits until the machine is done and the loop has ended; false after `timeout`.
  bool Join(Duration timeout);
  // Why the loop ended before its machine was done: an exception out of the machine. Empty otherwise.
  std::string failure() const;
  ZmqCounters counters() const;

 private:
  std::unique_ptr<ZmqDriver> driver_;
};

}  // namespace sluice::transport

// A loop over ZeroMQ, on a thread of its own: one ROUTER for the peers that connect, one DEALER per Connect.
//
// A message is one multipart: the envelope, then the payload frames. Payload is copied neither on sending nor
// on receiving, except frames so small that copying is cheaper. What arrives is bounded, decoded, checked and
// counted before the machine sees it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/thread_loop.h"
#include "transport/zmq/context.h"

namespace sluice::transport {

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
  uint64_t leased_copies = 0;  // those among them that were copied to shared memory first
  uint64_t leases_opened = 0;  // payload frames read in their sender's memory
  uint64_t forgotten = 0;      // peers whose connections had closed, at the bound of max_gone_peers
};

class ZmqDriver;

class ZmqLoop final : public ThreadLoop {
 public:
  // Binds the addresses, then starts the thread. Throws Error; where an address cannot be bound, it names it.
  ZmqLoop(std::shared_ptr<ZmqContext> context, std::shared_ptr<StateMachine> machine, LoopOptions options);
  ~ZmqLoop() override;

  bool Post(Task task) override;
  bool PostOrRun(Task task) override;
  void DriveUntil(const std::function<bool()>& done, Time deadline) override;
  const std::vector<std::string>& addresses() const override;
  void Stop() override;
  bool Join(Duration timeout) override;
  std::string failure() const override;
  ZmqCounters counters() const;

 private:
  std::unique_ptr<ZmqDriver> driver_;
};

}  // namespace sluice::transport

// What the parts of one loop share. Internal to zmq/.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/pool_allocator.h"
#include "transport/thread_loop.h"
#include "transport/zmq/context.h"
#include "transport/zmq/frames.h"
#include "transport/zmq/socket.h"

namespace sluice::transport {

struct Peer;

// ZmqCounters as the loop counts them. Thread-safe.
struct AtomicCounters {
  std::atomic<uint64_t> sent{0}, received{0}, overflowed{0}, unreachable{0}, bad{0}, muted{0}, thrown_away{0},
      cut{0}, forgotten{0};
};

// ZmqDriver owns it; its parts (Acceptor, Connector, Sender, Receiver, MemoryExchange) refer to it. The
// options do not change; all else but the counters and room_wakeup is used under the loop's lock.
struct LoopResources {
  static Time Now() { return SteadyClock().Now(); }
  // Logs a warning about `peer`, or about the loop itself when that is null, at a bounded rate.
  void Warn(const Peer* peer, const std::string& what);
  // Sets the options that all sockets of the loop have in common.
  void Configure(ZmqSocket* socket) const;

  const LoopOptions options;
  const std::shared_ptr<ZmqContext> context;
  const std::shared_ptr<StateMachine> machine;
  Network& network;  // as the machine sees it
  // Wakes the loop's thread when a peer has room again.
  const std::shared_ptr<Wakeup> room_wakeup;
  // Allocates what each message needs while ZeroMQ or the machine holds it: envelope, packed frames, records.
  const std::shared_ptr<Allocator> memory = std::make_shared<PoolAllocator>(size_t{16} << 20);
  AtomicCounters counters = {};
  LogLimiter log = {5, 10s};
};

// As libzmq's options take a time.
inline int Milliseconds(Duration d) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
}

}  // namespace sluice::transport

// Reads messages from a loop's sockets, decodes and checks them, and delivers them to the machine. Internal
// to zmq/. One thread at a time: under the loop's lock.
#pragma once

#include "base/rng.h"
#include "transport/zmq/acceptor.h"
#include "transport/zmq/loop_resources.h"
#include "transport/zmq/memory_exchange.h"
#include "transport/zmq/sender.h"
#include "transport/zmq/task_queue.h"

namespace sluice::transport {

class Receiver {
 public:
  Receiver(LoopResources& loop, Acceptor& acceptor, Sender& sender, MemoryExchange& memory_exchange)
      : loop_(loop),
        acceptor_(acceptor),
        sender_(sender),
        memory_exchange_(memory_exchange),
        chance_(loop.options.drop_seed) {}

  // Delivers what `polled`, a router or a dealer, has to read: a bounded number of messages, and none more
  // once the machine is done, the peer is disconnected or `tasks` has tasks. Sets *now to the time when the
  // last one was read. Throws Error(kCancelled) when the ZeroMQ context has ended.
  void ReadBurst(PolledSocket* polled, const TaskQueue& tasks, Time* now);

 private:
  void Deliver(Time now, Peer* peer, Multipart::State state, Multipart* parts);
  // Drops and counts a bad message, mutes a peer that sends too many of them, and answers a request.
  void Reject(Peer* peer, Bytes envelope, const Failure& failure);

  LoopResources& loop_;
  Acceptor& acceptor_;
  Sender& sender_;
  MemoryExchange& memory_exchange_;
  Rng chance_;
};

}  // namespace sluice::transport

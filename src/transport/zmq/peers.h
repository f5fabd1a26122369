// The peers of a loop, by PeerId, and the sockets by which they are reached. Internal to zmq/. One thread at
// a time: all of it is used under the loop's lock.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "transport/transport.h"
#include "transport/zmq/frames.h"
#include "transport/zmq/socket.h"

namespace sluice::transport {

struct Peer;

// A socket that is read: the router, a peer's dealer, or the monitor of such a dealer.
struct PolledSocket {
  PolledSocket(void* context, int type) : socket(context, type) {}
  ZmqSocket socket;
  Peer* peer = nullptr;  // null: the router, or a monitor that has ended
  bool is_monitor = false;
  bool drained = false;  // there is nothing to read, and the socket's descriptor signals when there is
};

struct Peer {
  ~Peer() { StopWatching(); }
  // Ends the events of `monitor`. An event that is never read would block libzmq's I/O thread.
  void StopWatching();
  // Null when the peer is reached by its own dealer, which needs no address.
  const RoutingId* address() const { return dealer ? nullptr : &routing_id; }

  PeerId id;
  std::string name;  // for logs
  RoutingId routing_id = 0;
  std::unique_ptr<PolledSocket>
      dealer;  // null: the peer has connected to this loop, and is reached by the router
  std::unique_ptr<PolledSocket> monitor;  // watches the dealer until its first handshake
  PolledSocket* polled = nullptr;         // the dealer or the router: what is sent goes there
  std::shared_ptr<QueuedByteCounter> queue;
  bool open = true;
  int bad = 0;                         // bad messages since the peer was last muted
  int request_attempts = 0;            // link requests that found its rendezvous socket full
  Time tried_since{}, next_warning{};  // while a dealer has no connection: its start, the next warning
  Time muted_until{};
};

class Peers {
 public:
  // `room_wakeup` is called when a queue has shrunk as far as its Await asked for.
  explicit Peers(std::shared_ptr<Wakeup> room_wakeup) : room_wakeup_(std::move(room_wakeup)) {}

  // Gives the peer its id and its queue.
  Peer* Add(std::unique_ptr<Peer> peer);
  Peer* Find(PeerId id) const;  // null: unknown, or forgotten
  void Remove(PeerId id) { peers_.erase(id); }
  // Closes the dealers of peers from which this loop has disconnected.
  void RemoveDisconnected();
  void Clear() { peers_.clear(); }
  const std::map<PeerId, std::unique_ptr<Peer>>& all() const { return peers_; }

 private:
  const std::shared_ptr<Wakeup> room_wakeup_;
  std::map<PeerId, std::unique_ptr<Peer>> peers_;
  uint64_t last_ = 0;  // the newest id; ids are never reused
};

}  // namespace sluice::transport

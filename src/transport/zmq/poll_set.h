// What a loop reads, and the two pollers that watch it: the loop's thread sleeps on one, a caller in
// DriveUntil on the other, which the kernel wakes first. Internal to zmq/.
//
// A ZMQ_FD signals only that something has changed since the socket last processed such a change. So a
// socket is read until it is drained, and again after a send that has processed a change (frames.h), and a
// thread sleeps only when all sockets are drained.
//
// Thread safety: the pollers' Wake may be called from any thread, and a poller's Sleep without the loop's
// lock; all else is called under it.
#pragma once

#include <vector>

#include "transport/payload_sharing.h"
#include "transport/zmq/peers.h"
#include "transport/zmq/poller.h"

namespace sluice::transport {

class PollSet {
 public:
  Poller& caller_poller() { return caller_poller_; }
  Poller& loop_poller() { return loop_poller_; }

  // Sockets or descriptors have come or gone: Rebuild is to be called before anything is read.
  void Invalidate() { stale_ = true; }
  bool stale() const { return stale_; }
  // Closes what peers no longer use, and lists and watches the rest: `router`, which may be null, the sockets
  // of `peers` and the descriptors of `sharing`, which may be null. Does nothing unless stale. To be called
  // between calls of the machine, when no function up the stack holds a pointer to a socket.
  void Rebuild(PolledSocket* router, Peers& peers, PayloadSharing* sharing);
  // Stops watching, and lists nothing.
  void Clear();

  const std::vector<PolledSocket*>& sockets() const { return sockets_; }
  // Whether the descriptors of `sharing` have nothing to read; true without sharing.
  bool sharing_drained() const { return sharing_drained_; }
  void OnSharingRead() { sharing_drained_ = true; }
  // Nothing is left to read, and the list is not stale.
  bool Idle() const;
  // Returns !Idle(), after it has asked every socket that is not drained whether there is something to read.
  // It is to be called after sockets were used, before their descriptors are waited for.
  bool HasWork();

  // Marks what `poller` has reported; `ready` is the result of its Sleep or Poll.
  void MarkReady(Poller* poller, int ready);
  // Looks without waiting, every few calls, so that a socket that always has something to read does not
  // starve the other sockets and shared memory.
  void PollBusy(Poller* poller);

 private:
  Poller caller_poller_, loop_poller_;
  std::vector<PolledSocket*> sockets_;
  bool stale_ = true;
  bool has_sharing_ = false;
  bool sharing_drained_ = true;  // as PolledSocket::drained
  unsigned busy_passes_ = 0;
};

}  // namespace sluice::transport

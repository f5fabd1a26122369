// The shared memory of one loop: its links to peers, how links are made, and the leasing of payloads.
//
// A loop that has connected to a bound loop asks for its offer by a message (GetMemory). The offer contains
// the name of a rendezvous socket and a token, and thus reaches only members of the job. The connecting loop
// sends the token to that socket, together with one end of a socket pair; from then on both loops lease their
// payloads to each other over the pair. Where that fails, payloads travel in messages.
//
// Thread safety: one thread at a time; leased payloads may be released on any thread.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/pool_allocator.h"
#include "transport/shm/memory_link.h"
#include "transport/transport.h"

namespace sluice::transport {

class SharedMemory {
 public:
  // `bound`: this loop has a rendezvous socket for peers, and wakes them when it has returned their leases.
  // `records`: allocates the record of each lease. Throws Error(kUnavailable) when the socket cannot be made.
  SharedMemory(std::shared_ptr<SharedHeap> heap, bool bound, std::shared_ptr<Allocator> records);

  // Returns the offer for `peer`, which has asked for it. An earlier offer to it becomes invalid.
  wire::MemoryOffer OfferTo(PeerId peer);
  // Accepts the offer of `peer`. A failure says why no memory can be shared with it; after kResourceExhausted
  // another offer may be asked for.
  Status Accept(PeerId peer, const wire::MemoryOffer& offer);

  // Moves the frames that are large enough from `message->payload` to `message->leased`. Frames that do not
  // lie in shared memory are copied there first; returns the bytes copied. Does nothing when there is no link
  // to `peer`. The caller then sends the message, so that the peer need not be woken for returns so far.
  uint64_t LeaseOut(PeerId peer, wire::Message* message);
  // The opposite: puts a frame on the peer's memory into `message->payload` for each of `message->leased`.
  Status OpenLeases(PeerId peer, wire::Message* message);
  // Releases the frames that `peer` has returned. To be called whenever a message came from it.
  void Collect(PeerId peer);
  // Wakes the peers of a bound loop whose leases have been returned since they were last sent a message.
  void WakePeersOfReturns();

  // Returns the sockets to watch for reading. They are closed in CloseUnused only, which the caller calls
  // when it has stopped watching them.
  std::vector<int> descriptors() const;
  bool changed() const { return changed_; }  // descriptors() may differ from those at the last CloseUnused
  void CloseUnused();
  // Reads what the sockets have received; a bounded number of records per call.
  void Read();
  // Returns the peers that have closed their link before they answered, since the last call.
  std::vector<PeerId> TakeRefused() { return std::exchange(refused_, {}); }
  // Ends the link with `peer`. Memory that a bound loop has leased to it stays unchanged until the leases are
  // returned or the peer ends.
  void Forget(PeerId peer);
  // Waits until the peers have returned all leases, at most for `patience`; returns whether they have.
  bool AwaitReturns(Duration patience);

  // Counts of frames. Thread-safe.
  struct Counters {
    std::atomic<uint64_t> leased = 0;
    std::atomic<uint64_t> copied = 0;  // of those leased, frames that were copied to shared memory first
    std::atomic<uint64_t> leases_opened = 0;
  };
  const Counters& counters() const { return counters_; }

 private:
  using Token = std::array<char, 16>;
  void ReadRendezvous();
  Status AcceptRequest(Bytes request, FileDescriptor socket, const FileDescriptor& returns);
  void ReadDraining();

  const std::shared_ptr<SharedHeap> heap_;
  const std::shared_ptr<Allocator> records_;
  const std::shared_ptr<Allocator> copies_;  // for copies of payloads that do not lie in heap_
  FileDescriptor rendezvous_;
  std::string rendezvous_name_;
  std::array<char, 8> secret_{};    // the first bytes of every token
  std::map<Token, PeerId> offers_;  // tokens that have not been used
  std::map<PeerId, std::unique_ptr<MemoryLink>> links_;
  std::vector<std::unique_ptr<MemoryLink>> draining_;  // of forgotten peers that still read leases
  std::vector<std::unique_ptr<MemoryLink>> unused_;    // closed by CloseUnused
  std::vector<PeerId> refused_;
  bool changed_ = true;
  Counters counters_;
};

}  // namespace sluice::transport

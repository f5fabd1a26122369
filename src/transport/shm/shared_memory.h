// What a loop shares with its peers: links, how they come to be, and payloads that stay where they are.
//
// Whoever connected to a bound loop asks it by message for its offer: the name of its door and a token, which
// so come only to members of the job. The token is shown at the door together with one end of a pair of
// sockets, and from then on both lend each other their payloads. Where that fails, payloads travel in
// messages, as without.
//
// Thread safety: one thread at a time; payloads that were borrowed may be let go of on any.
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
  // `bound`: peers come to this loop's door, and are woken when their memory is free again. Throws
  // Error(kUnavailable) when it can have no door.
  SharedMemory(std::shared_ptr<SharedHeap> heap, bool bound, std::shared_ptr<Allocator> records);

  // To a peer that asked.
  wire::MemoryOffer OfferTo(PeerId peer);
  // Of the peer asked. Failures: why its memory cannot be shared; kResourceExhausted: it may be asked again.
  Status Accept(PeerId peer, const wire::MemoryOffer& offer);

  // From `payload` to `lent`: all frames that are large enough. Those that do not lie in shared memory are
  // copied there; how many bytes is returned. Nothing happens without a link. Then `peer` is sent something,
  // and need not be woken.
  uint64_t LeaseOut(PeerId peer, wire::Message* message);
  // The other way round.
  Status OpenLeases(PeerId peer, wire::Message* message);
  // What `peer` gave back is no longer held. Whenever something came from it.
  void Collect(PeerId peer);
  void WakePeersOfReturns();

  // Sockets to be watched for something to read; they are closed in CloseUnused alone, when they no longer
  // are.
  std::vector<int> descriptors() const;
  bool changed() const { return changed_; }  // since CloseUnused
  void CloseUnused();
  void Read();
  // Peers whose doors were shut after all, since the last call.
  std::vector<PeerId> TakeRefused() { return std::exchange(refused_, {}); }
  // Nothing is lent any more. What a bound loop has lent stays as it is until it comes back or the peer ends.
  void Forget(PeerId peer);
  // Until all that was lent has come back, or `patience` is over. Whether it has.
  bool AwaitReturns(Duration patience);

  // Of frames. Thread-safe.
  struct Counters {
    std::atomic<uint64_t> leased = 0;
    std::atomic<uint64_t> copied = 0;  // of those lent: they lay elsewhere
    std::atomic<uint64_t> leases_opened = 0;
  };
  const Counters& counters() const { return counters_; }

 private:
  using Token = std::array<char, 16>;
  void ReadRendezvous();
  Status AcceptRequest(Bytes request, FileDescriptor socket, const FileDescriptor& board);
  void ReadDraining();

  const std::shared_ptr<SharedHeap> heap_;
  const std::shared_ptr<Allocator> records_;
  const std::shared_ptr<Allocator> copies_;  // for payloads that lie elsewhere
  FileDescriptor rendezvous_;
  std::string rendezvous_name_;
  std::array<char, 8> secret_{};    // every token begins with it
  std::map<Token, PeerId> offers_;  // not taken yet
  std::map<PeerId, std::unique_ptr<MemoryLink>> links_;
  std::vector<std::unique_ptr<MemoryLink>> draining_;  // forgotten, with loans that are still read
  std::vector<std::unique_ptr<MemoryLink>> unused_;
  std::vector<PeerId> refused_;
  bool changed_ = true;
  Counters counters_;
};

}  // namespace sluice::transport

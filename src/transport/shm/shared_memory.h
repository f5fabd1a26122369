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
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/pool_allocator.h"
#include "transport/payload_sharing.h"
#include "transport/shm/memory_link.h"

namespace sluice::transport {

class SharedMemory final : public PayloadSharing {
 public:
  // `bound`: this loop has a rendezvous socket for peers, and wakes them when it has returned their leases.
  // `records`: allocates the record of each lease. Throws Error(kUnavailable) when the socket cannot be made.
  SharedMemory(std::shared_ptr<SharedHeap> heap, bool bound, std::shared_ptr<Allocator> records);

  wire::MemoryOffer OfferTo(PeerId peer) override;
  Status Accept(PeerId peer, const wire::MemoryOffer& offer) override;
  uint64_t LeaseOut(PeerId peer, wire::Message* message) override;
  Status OpenLeases(PeerId peer, wire::Message* message) override;
  void Collect(PeerId peer) override;
  void WakePeersOfReturns() override;
  std::vector<int> descriptors() const override;
  bool changed() const override { return changed_; }
  void CloseUnused() override;
  void Read() override;  // a bounded number of records per call
  std::vector<PeerId> TakeRefused() override { return std::exchange(refused_, {}); }
  void Forget(PeerId peer) override;
  bool AwaitReturns(Duration patience) override;
  const Counters& counters() const override { return counters_; }

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
  std::vector<std::unique_ptr<MemoryLink>> draining_;  // forgotten peers that still read leases have these
  std::vector<std::unique_ptr<MemoryLink>> unused_;    // closed by CloseUnused
  std::vector<PeerId> refused_;
  bool changed_ = true;
  Counters counters_;
};

// Returns what makes loops share the memory of `heap`; an empty function when `heap` is null.
PayloadSharingMaker SharePayloadsOf(std::shared_ptr<SharedHeap> heap);

}  // namespace sluice::transport

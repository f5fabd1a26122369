// How a loop leases payloads to peers on the same host in place of sending them. shm/ implements it; a
// transport uses it by this interface only.
//
// Two loops that share memory exchange two messages first, which their machines do not see: the loop that has
// connected asks the bound one for its offer (wire::GetMemory), and accepts that (wire::MemoryOffer). From
// then on LeaseOut takes payload frames out of a message, before the transport sends it, and OpenLeases puts
// them back in the receiving process. The interface is called once for each message, by these two methods.
//
// Thread safety: one thread at a time; leased payloads may be released on any thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/result.h"
#include "transport/transport.h"

namespace sluice::transport {

class PayloadSharing {
 public:
  virtual ~PayloadSharing() = default;

  // Returns the offer for `peer`, which has asked for it. An earlier offer to it becomes invalid.
  virtual wire::MemoryOffer OfferTo(PeerId peer) = 0;
  // Accepts the offer of `peer`. A failure says why no memory can be shared with it; after kResourceExhausted
  // another offer may be asked for.
  virtual Status Accept(PeerId peer, const wire::MemoryOffer& offer) = 0;

  // Moves the frames that are large enough from `message->payload` to `message->leased`. Frames that do not
  // lie in shared memory are copied there first; returns the bytes copied. Does nothing when there is no link
  // to `peer`. The caller then sends the message, so that the peer need not be woken for returns so far.
  virtual uint64_t LeaseOut(PeerId peer, wire::Message* message) = 0;
  // The opposite: puts a frame on the peer's memory into `message->payload` for each of `message->leased`.
  // Does what Collect does first. Fails with kResourceExhausted when the sender has been told to send the
  // payload again in a message; with kInvalidArgument when the message is bad.
  virtual Status OpenLeases(PeerId peer, wire::Message* message) = 0;
  // Releases the frames that `peer` has returned. To be called whenever a message came from it that is not
  // passed to OpenLeases.
  virtual void Collect(PeerId peer) = 0;
  // Wakes the peers of a bound loop whose leases have been returned since they were last sent a message.
  virtual void WakePeersOfReturns() = 0;

  // Returns the descriptors to watch for reading. They are closed in CloseUnused only, which the caller calls
  // when it has stopped watching them.
  virtual std::vector<int> descriptors() const = 0;
  virtual bool changed() const = 0;  // descriptors() may differ from those at the last CloseUnused
  virtual void CloseUnused() = 0;
  // Reads what has come by the descriptors; a bounded amount per call.
  virtual void Read() = 0;
  // Returns the peers that have refused, since the last call, to share memory with this loop.
  virtual std::vector<PeerId> TakeRefused() = 0;
  // Ends the sharing with `peer`. Memory that a bound loop has leased to it stays unchanged until the leases
  // are returned or the peer ends.
  virtual void Forget(PeerId peer) = 0;
  // Waits until the peers have returned all leases, at most for `patience`; returns whether they have.
  virtual bool AwaitReturns(Duration patience) = 0;

  // Counts of frames. Thread-safe.
  struct Counters {
    std::atomic<uint64_t> leased = 0;
    std::atomic<uint64_t> copied = 0;  // leased frames that were copied to shared memory first
    std::atomic<uint64_t> leases_opened = 0;
  };
  virtual const Counters& counters() const = 0;
};

// Makes the sharing of one loop. `bound`: the loop has an address, so peers may ask it for offers. `records`:
// allocates the record of each lease. May throw Error(kUnavailable).
using PayloadSharingMaker =
    std::function<std::unique_ptr<PayloadSharing>(bool bound, std::shared_ptr<Allocator> records)>;

}  // namespace sluice::transport

// The leases between this loop and one peer, in both directions. Internal to shm/.
//
// A message travels over ZeroMQ and says where its payload lies; the link has passed on the descriptor of the
// memory. Leases are numbered from 1, and the messages of a connection arrive in the order sent: a number
// that was skipped was lost on the way, and its lease is returned as if it had been read.
//
// Thread safety: one thread at a time; leased frames may be released on any thread, even after the link ends.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "transport/shm/lease_returns.h"
#include "transport/shm/shared_heap.h"
#include "wire/messages.h"

namespace sluice::transport {

class MemoryLink {
 public:
  // The most that this process maps for one peer; enough for the peer's arrays a hundred times over.
  static constexpr size_t kMostSegments = 4096;
  static constexpr uint64_t kMostBytes = uint64_t{1} << 40;
  // The most that is leased to a peer at once; frames beyond it travel in messages, and count as queued.
  static constexpr uint64_t kMaxLeasedBytes = uint64_t{1} << 30;

  // `socket`: one end of a pair; the peer has the other end. `returns`: where this end writes its returns.
  // `peer_returns`: the peer's returns; null when they are to come by the socket. `records`: the leases'
  // allocator.
  MemoryLink(FileDescriptor socket, std::shared_ptr<LeaseReturns> returns,
             std::shared_ptr<const LeaseReturnsView> peer_returns, std::shared_ptr<SharedHeap> heap,
             std::shared_ptr<Allocator> records);

  // Sends the peer the descriptor of this end's returns; false when that fails.
  bool SendReturns();
  bool open() const { return open_; }
  bool ready() const { return open_ && peer_can_map_ && peer_returns_ != nullptr; }  // frames can be leased
  bool peer_answered() const { return peer_returns_ != nullptr; }                    // the peer has answered
  int fd() const { return socket_->get(); }

  // Leases `frame`, the message's payload frame number `index`, and holds it until the lease is returned.
  // Returns nullopt when the frame does not lie in shared memory, when too much is leased already, or when
  // the peer cannot get the memory.
  std::optional<wire::LeasedFrame> LeaseOut(uint32_t index, const Frame& frame);
  // Releases the frames whose leases have been returned. Cheap when there are none.
  void Collect();
  uint64_t leased_bytes() const { return leased_bytes_; }

  // Returns a frame on the memory of the peer that `leased` names. Fails with kInvalidArgument when that is
  // not the peer's memory or the lease was returned already; with kResourceExhausted when this process could
  // not map the memory: the peer has been notified and is to send the payload again in a message.
  Result<Frame> OpenLease(const wire::LeasedFrame& leased);

  // Wakes the peer, which may wait for its memory, unless a message was sent to it since the last return.
  void WakeIfReturned();
  // A message is sent to the peer, which then reads all returns so far.
  void MarkNotified() { notified_ = returns_->count(); }

  // Reads the records that the socket has received; the link may be closed afterwards.
  void Read();

 private:
  struct OutstandingLease {
    Frame frame;
    bool out = false;
  };
  // A segment of the peer.
  struct PeerSegment {
    std::shared_ptr<const ShmMapping> mapping;
    uint64_t bytes = 0;
  };
  enum class Kind : uint32_t { kReturns = 1, kSegment = 2, kSegmentGone = 3, kWake = 4, kCannotMap = 5 };
  struct Record {
    Kind kind;
    uint32_t reserved;
    uint64_t segment;
  };

  bool SendControl(Kind kind, uint64_t segment = 0, int descriptor = -1);
  bool HandleControl(const Record& record, FileDescriptor descriptor);
  bool AnnounceSegment(const SharedHeap::Location& place);
  void AnnounceGoneSegments();
  bool StopMapping(const std::string& why);
  OutstandingLease& At(uint64_t lease) {
    return outstanding_leases_[lease & (outstanding_leases_.size() - 1)];
  }
  void Close();

  const std::shared_ptr<LeaseReturns> returns_;
  const std::shared_ptr<SharedHeap> heap_;
  const std::shared_ptr<Allocator> records_;
  // Open while this link exists or a frame leased from the peer does: when it closes, the peer knows that its
  // memory is no longer read.
  const std::shared_ptr<const FileDescriptor> socket_;
  bool open_ = true;
  bool peer_can_map_ = true;  // false once the peer reports that it can map no more

  // Leases to the peer: numbers first_ to next_ - 1, some of which have been returned.
  std::shared_ptr<const LeaseReturnsView> peer_returns_;
  std::vector<OutstandingLease> outstanding_leases_;  // a ring; its size is a power of two
  uint64_t first_ = 1, next_ = 1;
  uint64_t collected_ = 0;  // returns read
  uint64_t leased_bytes_ = 0;
  std::unordered_map<uint64_t, bool> announced_;  // numbers of the segments that the peer has
  uint64_t gone_ = 0;                             // the heap's gone() of which the peer has been notified

  // Leases from the peer.
  std::unordered_map<uint64_t, PeerSegment> mapped_;  // by the segment's number
  uint64_t mapped_bytes_ = 0;
  uint64_t expected_ = 1;  // the next lease's number
  bool full_ = false;      // this process can map no more
  uint64_t notified_ = 0;  // returns for which the peer was woken or sent a message
};

}  // namespace sluice::transport

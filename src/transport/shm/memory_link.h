// The memory that this loop and one peer lend each other. Internal to shm/.
//
// A message travels over ZeroMQ and says where its payload lies; the link has handed over the memory itself.
// Leases are numbered, and messages of a connection arrive in the order sent: a number that was skipped was
// lost on the way, and is given back as if it had been read.
//
// Thread safety: one thread at a time; what was borrowed may be let go of on any, also after the link's end.
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
  // What a peer may have mapped here: its arrays, a hundred times over.
  static constexpr size_t kMostSegments = 4096;
  static constexpr uint64_t kMostBytes = uint64_t{1} << 40;
  // What it may have borrowed: beyond that frames are copied, and count as queued for it.
  static constexpr uint64_t kMaxLeasedBytes = uint64_t{1} << 30;

  // `socket`: one end of a pair whose other end the peer has. `theirs`: where it says what it has given back;
  // null until it comes by the socket. `records`: for what a loan takes.
  MemoryLink(FileDescriptor socket, std::shared_ptr<LeaseReturns> board,
             std::shared_ptr<const LeaseReturnsView> theirs, std::shared_ptr<SharedHeap> heap,
             std::shared_ptr<Allocator> records);

  // Tells the peer where this end writes what it has given back; false when it cannot be told.
  bool SendReturns();
  bool open() const { return open_; }
  bool ready() const { return open_ && peer_can_map_ && peer_returns_ != nullptr; }  // to lend
  bool met() const { return peer_returns_ != nullptr; }
  int fd() const { return socket_->get(); }

  // Until it comes back, `frame` is held here. nullopt: it does not lie in shared memory, or too much is out.
  std::optional<wire::LeasedFrame> LeaseOut(uint32_t index, const Frame& frame);
  // Lets go of what has come back. Cheap when nothing has.
  void Collect();
  uint64_t leased_bytes() const { return leased_bytes_; }

  // Failures: what the peer names is not its memory, or was given back already; kResourceExhausted: this
  // process could not map it, and the peer, which was told, is to send it again by message.
  Result<Frame> OpenLease(const wire::LeasedFrame& lent);

  // The peer, which may wait for its memory, is woken unless it has been sent something since the last
  // return.
  void WakeIfReturned();
  void MarkNotified() { notified_ = returns_->count(); }

  // What the socket brought; the link may be closed afterwards.
  void Read();

 private:
  struct LeasedOut {
    Frame frame;
    bool out = false;
  };
  struct Borrowed {
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
  LeasedOut& At(uint64_t lease) { return leased_out_[lease & (leased_out_.size() - 1)]; }
  void Close();

  const std::shared_ptr<LeaseReturns> returns_;
  const std::shared_ptr<SharedHeap> heap_;
  const std::shared_ptr<Allocator> records_;
  // Open while this link lasts or anything is borrowed: its end tells the peer that nobody reads any more.
  const std::shared_ptr<const FileDescriptor> socket_;
  bool open_ = true;
  bool peer_can_map_ = true;  // until the peer says that it can map no more

  // Lending: leases first_ to next_ - 1, some of which have come back.
  std::shared_ptr<const LeaseReturnsView> peer_returns_;
  std::vector<LeasedOut> leased_out_;  // a ring; its size is a power of two
  uint64_t first_ = 1, next_ = 1;
  uint64_t collected_ = 0;  // returns looked at
  uint64_t leased_bytes_ = 0;
  std::unordered_map<uint64_t, bool> announced_;  // segments by number
  uint64_t gone_ = 0;                             // of the heap's, told to the peer

  // Borrowing.
  std::unordered_map<uint64_t, Borrowed> mapped_;
  uint64_t mapped_bytes_ = 0;
  uint64_t expected_ = 1;  // the next lease
  bool full_ = false;      // this process can map no more
  uint64_t notified_ = 0;  // returns that the peer has heard of, or will read when something comes
};

}  // namespace sluice::transport

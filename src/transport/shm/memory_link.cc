// One link: leases frames of the SharedHeap to a peer and opens the peer's leases. Records on the socket pair
// announce segments with their descriptors, before the first message that names them, and segments that are
// gone; returned leases are read from the peer's LeaseReturns, without a system call.
// Invariant: a frame that was leased is held until its lease is returned or the pair is closed.
// A record that no correct peer sends closes the link. SharedMemory owns the links and calls them under the
// loop's lock; only a LinkLease is destroyed on any thread.
#include "transport/shm/memory_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/pool_allocator.h"
#include "base/strings.h"
#include "transport/shm/unix_socket.h"

namespace sluice::transport {
namespace {

// Records that are read from one link before the other links are served.
constexpr int kBurst = 256;

class LinkLease final : public Lease {
 public:
  LinkLease(std::shared_ptr<const ShmMapping> of, std::shared_ptr<LeaseReturns> returns,
            std::shared_ptr<const FileDescriptor> socket, uint64_t number)
      : Lease(std::move(of)), returns_(std::move(returns)), socket_(std::move(socket)), number_(number) {}
  ~LinkLease() override { returns_->Return(number_); }

 private:
  const std::shared_ptr<LeaseReturns> returns_;
  const std::shared_ptr<const FileDescriptor> socket_;
  const uint64_t number_;
};

}  // namespace

MemoryLink::MemoryLink(FileDescriptor socket, std::shared_ptr<LeaseReturns> returns,
                       std::shared_ptr<const LeaseReturnsView> peer_returns, std::shared_ptr<SharedHeap> heap,
                       std::shared_ptr<Allocator> records)
    : returns_(std::move(returns)),
      heap_(std::move(heap)),
      records_(std::move(records)),
      socket_(std::make_shared<const FileDescriptor>(std::move(socket))),
      peer_returns_(std::move(peer_returns)),
      outstanding_leases_(64) {}

bool MemoryLink::SendReturns() {
  return SendControl(Kind::kReturns, 0, returns_->fd());
}

bool MemoryLink::SendControl(Kind kind, uint64_t segment, int descriptor) {
  const Record record{kind, 0, segment};
  const std::span<const int> descriptors(&descriptor, descriptor < 0 ? 0 : 1);
  return SendRecord(socket_->get(), std::as_bytes(std::span(&record, 1)), descriptors);
}

bool MemoryLink::AnnounceSegment(const SharedHeap::Location& place) {
  if (announced_.contains(place.number)) return true;
  if (!SendControl(Kind::kSegment, place.number, place.segment->fd())) return false;
  announced_[place.number] = true;
  return true;
}

// Notifies the peer of the segments that are gone, whose memory its mappings keep until then. What finds the
// socket full is sent at the next call.
void MemoryLink::AnnounceGoneSegments() {
  const uint64_t gone = heap_->gone();
  if (gone == gone_) return;
  bool all_sent = true;
  std::erase_if(announced_, [&](const auto& segment) {
    if (heap_->Has(segment.first)) return false;
    const bool sent = SendControl(Kind::kSegmentGone, segment.first);
    all_sent = all_sent && sent;
    return sent;
  });
  if (all_sent) gone_ = gone;
}

std::optional<wire::LeasedFrame> MemoryLink::LeaseOut(uint32_t index, const Frame& frame) {
  if (!ready()) return std::nullopt;
  const auto room = [&] {
    return next_ - first_ < kMaxLeases && leased_bytes_ + frame.size() <= kMaxLeasedBytes;
  };
  if (!room()) Collect();
  const auto place = room() ? heap_->Find(frame.bytes()) : std::nullopt;
  AnnounceGoneSegments();
  if (!place || !AnnounceSegment(*place)) return std::nullopt;
  if (next_ - first_ == outstanding_leases_.size()) {
    std::vector<OutstandingLease> larger(2 * outstanding_leases_.size());
    for (uint64_t lease = first_; lease != next_; ++lease)
      larger[lease & (larger.size() - 1)] = std::move(At(lease));
    outstanding_leases_ = std::move(larger);
  }
  const uint64_t lease = next_++;
  At(lease) = {frame, true};
  leased_bytes_ += frame.size();
  return wire::LeasedFrame{index, lease, place->number, place->offset, frame.size()};
}

void MemoryLink::Collect() {
  if (peer_returns_ == nullptr) return;
  if (open_) AnnounceGoneSegments();
  for (uint64_t i = 0; i < kMaxLeases; ++i) {  // bounded, since a peer may write without end
    const std::optional<uint64_t> lease = peer_returns_->Returned(collected_);
    if (!lease) break;
    ++collected_;
    if (*lease < first_ || *lease >= next_ || !At(*lease).out) continue;
    OutstandingLease& given = At(*lease);
    leased_bytes_ -= given.frame.size();
    given = {};
  }
  while (first_ != next_ && !At(first_).out) ++first_;
}

Result<Frame> MemoryLink::OpenLease(const wire::LeasedFrame& leased) {
  const auto refuse = [](const auto&... why) {
    return Fail(ErrorCode::kInvalidArgument, "a payload frame in memory that was leased: ", why...);
  };
  if (leased.lease < expected_) return refuse("it was returned already");
  // The leases in between were lost. At most kMaxLeases are returned, since a bad peer may name any number.
  const uint64_t lost = std::min(leased.lease - expected_, kMaxLeases);
  for (uint64_t lease = leased.lease - lost; lease != leased.lease; ++lease) returns_->Return(lease);
  expected_ = leased.lease + 1;
  auto found = mapped_.find(leased.segment);
  if (found == mapped_.end()) {
    Read();  // the segment's record was sent before the message
    found = mapped_.find(leased.segment);
  }
  std::string why;
  if (found == mapped_.end()) {
    why = StrCat("segment ", leased.segment, " has not come");
  } else if (const Bytes all = found->second.mapping->bytes();
             leased.offset > all.size() || leased.length > all.size() - leased.offset) {
    why = StrCat(leased.length, " bytes at ", leased.offset, " of ", all.size());
  } else {
    auto held = std::allocate_shared<LinkLease>(MemoryOf<LinkLease>(records_), found->second.mapping,
                                                returns_, socket_, leased.lease);
    return Frame::Leased(all.subspan(leased.offset, leased.length), std::move(held));
  }
  returns_->Return(leased.lease);
  if (found == mapped_.end() && full_)
    return Fail(ErrorCode::kResourceExhausted, "no room to map memory that was leased");
  return refuse(why);
}

void MemoryLink::WakeIfReturned() {
  const uint64_t count = returns_->count();
  if (!open_ || count == notified_) return;
  SendControl(Kind::kWake);  // when the socket is full, the peer has been woken already
  notified_ = count;
}

void MemoryLink::Read() {
  for (int i = 0; open_ && i < kBurst; ++i) {
    Record record{};
    Received received;
    const ReceiveResult result =
        ReceiveRecord(socket_->get(), std::as_writable_bytes(std::span(&record, 1)), &received);
    if (result == ReceiveResult::kNothing) return;
    if (result == ReceiveResult::kClosed || received.bytes != sizeof record ||
        !HandleControl(record, std::move(received.descriptors[0])))
      Close();
  }
}

// Returns false for a record that no correct peer sends.
bool MemoryLink::HandleControl(const Record& record, FileDescriptor descriptor) {
  switch (record.kind) {
    case Kind::kReturns: {
      auto view = LeaseReturnsView::Of(descriptor);
      if (!view || peer_returns_ != nullptr) return false;
      peer_returns_ = std::move(view).value();
      return true;
    }
    case Kind::kSegment: {
      if (mapped_.size() >= kMostSegments || mapped_.contains(record.segment)) return false;
      // When this process's descriptor table is full, the kernel delivers a record without its descriptor.
      if (!descriptor.valid()) return StopMapping("no descriptor came with it, or there was no room for it");
      auto mapping = ShmMapping::Of(descriptor, kMostBytes - mapped_bytes_);
      if (!mapping && mapping.failure().code == ErrorCode::kResourceExhausted)
        return StopMapping(mapping.failure().message);
      if (!mapping) return false;
      const uint64_t bytes = mapping.value()->bytes().size();
      mapped_[record.segment] = {heap_->Announced(std::move(mapping).value()), bytes};
      mapped_bytes_ += bytes;
      return true;
    }
    case Kind::kSegmentGone: {
      const auto gone = mapped_.find(record.segment);
      if (gone == mapped_.end()) return false;
      mapped_bytes_ -= gone->second.bytes;
      mapped_.erase(gone);
      return true;
    }
    case Kind::kWake:
      return true;
    case Kind::kCannotMap:
      peer_can_map_ = false;
      return true;
  }
  return false;
}

// Reports to the peer that this process can map no more. The link stays open, because leases opened before
// are still being read, and a closed socket would make the peer release that memory.
bool MemoryLink::StopMapping(const std::string& why) {
  if (std::exchange(full_, true)) return true;
  LOG(WARNING) << WrapLogged(
      StrCat("memory that a peer leases cannot be mapped: ", why, "; its payloads travel by messages"));
  return SendControl(Kind::kCannotMap);
}

// Releases all leases to the peer: a peer that has closed its end reads nothing any more. The socket itself
// stays open until it is no longer watched and the frames leased from the peer are gone.
void MemoryLink::Close() {
  open_ = false;
  outstanding_leases_.assign(outstanding_leases_.size(), {});
  first_ = next_;
  leased_bytes_ = 0;
  mapped_.clear();
  mapped_bytes_ = 0;
}

}  // namespace sluice::transport

// The list in which a lease holder writes the leases that it has returned, for their owner to read. It lies
// in the holder's memory, since no process writes to another's. A return takes an atomic increment and two
// stores, on any thread, and no system call. Internal to shm/.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "transport/shm/fork_guard.h"
#include "transport/shm/segment.h"

namespace sluice::transport {

// The most leases that may be out at once, and the most returns that may be unread: return i is stored at
// index i modulo this.
inline constexpr uint64_t kMaxLeases = 8192;

struct LeaseReturnsLayout {
  std::atomic<uint64_t> count;  // returns begun
  struct Return {
    std::atomic<uint64_t> lease;
    std::atomic<uint64_t> sequence;  // i + 1 once the lease of return i is stored
  };
  Return returns[kMaxLeases];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// The lease holder's side. Thread-safe. In a child of the process (fork(2)) Return does nothing, since the
// process itself may still read what the child releases.
class LeaseReturns {
 public:
  static Result<std::shared_ptr<LeaseReturns>> Make() {
    auto segment = ShmSegment::Make(sizeof(LeaseReturnsLayout));
    if (!segment) return segment.failure();
    return std::make_shared<LeaseReturns>(std::move(segment).value());
  }
  explicit LeaseReturns(std::shared_ptr<ShmSegment> segment) : segment_(std::move(segment)) {}

  void Return(uint64_t lease) {
    if (!fork_guard_.IsOriginalProcess()) return;
    const uint64_t sequence = layout().count.fetch_add(1, std::memory_order_relaxed);
    LeaseReturnsLayout::Return& place = layout().returns[sequence % kMaxLeases];
    place.lease.store(lease, std::memory_order_relaxed);
    place.sequence.store(sequence + 1, std::memory_order_release);
  }
  uint64_t count() const { return layout().count.load(std::memory_order_relaxed); }
  int fd() const { return segment_->fd(); }

 private:
  LeaseReturnsLayout& layout() const { return *reinterpret_cast<LeaseReturnsLayout*>(segment_->data()); }
  const std::shared_ptr<ShmSegment> segment_;  // begins as zeros; no stored sequence is 0
  const ForkGuard fork_guard_;
};

// The owner's side, which only reads. The owner trusts what the holder has written: a holder that returns a
// lease too early only harms itself, as the memory that it reads may then change.
class LeaseReturnsView {
 public:
  static Result<std::shared_ptr<const LeaseReturnsView>> Of(const FileDescriptor& fd) {
    auto mapping = ShmMapping::Of(fd, sizeof(LeaseReturnsLayout));
    if (!mapping) return mapping.failure();
    if (mapping.value()->bytes().size() != sizeof(LeaseReturnsLayout))
      return Fail(ErrorCode::kInvalidArgument, "a lease returns of ", mapping.value()->bytes().size(),
                  " bytes");
    return std::make_shared<const LeaseReturnsView>(std::move(mapping).value());
  }
  explicit LeaseReturnsView(std::shared_ptr<const ShmMapping> mapping) : mapping_(std::move(mapping)) {}

  // Returns the lease of the i-th return; nullopt when it has not been written yet.
  std::optional<uint64_t> Returned(uint64_t i) const {
    const LeaseReturnsLayout::Return& place = layout().returns[i % kMaxLeases];
    if (place.sequence.load(std::memory_order_acquire) != i + 1) return std::nullopt;
    return place.lease.load(std::memory_order_relaxed);
  }

 private:
  const LeaseReturnsLayout& layout() const {
    return *reinterpret_cast<const LeaseReturnsLayout*>(mapping_->bytes().data());
  }
  const std::shared_ptr<const ShmMapping> mapping_;
};

}  // namespace sluice::transport

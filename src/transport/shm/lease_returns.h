// Where a borrower writes what it has given back, for the lender to read: memory of the borrower's, since
// nobody writes into the memory of another process. Giving back takes two stores, from any thread, and no
// system call. Internal to shm/.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "transport/shm/fork_guard.h"
#include "transport/shm/segment.h"

namespace sluice::transport {

// So many leases may be out at once, and returns not be read yet: return i stands at i modulo this.
inline constexpr uint64_t kMaxLeases = 8192;

struct LeaseReturnsLayout {
  std::atomic<uint64_t> count;  // of returns begun
  struct Return {
    std::atomic<uint64_t> lease;
    std::atomic<uint64_t> sequence;  // i + 1, once the lease of return i stands there
  };
  Return returns[kMaxLeases];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// The borrower's. Thread-safe. What a child of the process lets go of (fork(2)) the process may still read.
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
  const std::shared_ptr<ShmSegment> segment_;  // of zeros: no sequence is 0
  const ForkGuard fork_guard_;
};

// The lender's look at it. What stands there is the borrower's word: who lies reads what has changed.
class LeaseReturnsView {
 public:
  static Result<std::shared_ptr<const LeaseReturnsView>> Of(const FileDescriptor& fd) {
    auto mapping = ShmMapping::Of(fd, sizeof(LeaseReturnsLayout));
    if (!mapping) return mapping.failure();
    if (mapping.value()->bytes().size() != sizeof(LeaseReturnsLayout))
      return Fail(ErrorCode::kInvalidArgument, "a lease board of ", mapping.value()->bytes().size(),
                  " bytes");
    return std::make_shared<const LeaseReturnsView>(std::move(mapping).value());
  }
  explicit LeaseReturnsView(std::shared_ptr<const ShmMapping> mapping) : mapping_(std::move(mapping)) {}

  // The lease of the i-th return; nullopt: it is not there yet.
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

// Where a borrower writes what it has given back, for the lender to read: memory of the borrower's, since
// nobody writes into the memory of another process. Giving back takes two stores, from any thread, and no
// system call. Internal to shm/.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "transport/shm/segment.h"

namespace sluice::transport {

// So many leases may be out at once: a lease's place is its number modulo this.
inline constexpr uint64_t kMostLeases = 8192;

struct LeaseBoardLayout {
  std::atomic<uint64_t> count;                  // of returns
  std::atomic<uint64_t> returned[kMostLeases];  // the number of the lease that was returned last
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// The borrower's. Thread-safe.
class LeaseBoard {
 public:
  static Result<std::shared_ptr<LeaseBoard>> Make() {
    auto segment = Segment::Make(sizeof(LeaseBoardLayout));
    if (!segment) return segment.failure();
    return std::make_shared<LeaseBoard>(std::move(segment).value());
  }
  explicit LeaseBoard(std::shared_ptr<Segment> segment) : segment_(std::move(segment)) {}

  void Return(uint64_t lease) {
    layout().returned[lease % kMostLeases].store(lease, std::memory_order_release);
    layout().count.fetch_add(1, std::memory_order_release);
  }
  uint64_t count() const { return layout().count.load(std::memory_order_relaxed); }
  int fd() const { return segment_->fd(); }

 private:
  LeaseBoardLayout& layout() const { return *reinterpret_cast<LeaseBoardLayout*>(segment_->data()); }
  const std::shared_ptr<Segment> segment_;  // of zeros: no lease has the number 0
};

// The lender's look at it. What stands there is the borrower's word: who lies reads what has changed.
class LeaseBoardView {
 public:
  static Result<std::shared_ptr<const LeaseBoardView>> Of(const Descriptor& fd) {
    auto mapping = Mapping::Of(fd, sizeof(LeaseBoardLayout));
    if (!mapping) return mapping.failure();
    if (mapping.value()->bytes().size() != sizeof(LeaseBoardLayout))
      return Fail(ErrorCode::kInvalidArgument, "a lease board of ", mapping.value()->bytes().size(),
                  " bytes");
    return std::make_shared<const LeaseBoardView>(std::move(mapping).value());
  }
  explicit LeaseBoardView(std::shared_ptr<const Mapping> mapping) : mapping_(std::move(mapping)) {}

  uint64_t count() const { return layout().count.load(std::memory_order_acquire); }
  bool Returned(uint64_t lease) const {
    return layout().returned[lease % kMostLeases].load(std::memory_order_acquire) == lease;
  }

 private:
  const LeaseBoardLayout& layout() const {
    return *reinterpret_cast<const LeaseBoardLayout*>(mapping_->bytes().data());
  }
  const std::shared_ptr<const Mapping> mapping_;
};

}  // namespace sluice::transport

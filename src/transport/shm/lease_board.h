// Where a borrower writes what it has given back, for the lender to read: memory of the borrower's, since
// nobody writes into the memory of another process. Giving back takes two stores, from any thread, and no
// system call. Internal to shm/.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "transport/shm/segment.h"
#include "transport/shm/this_process.h"

namespace sluice::transport {

// So many leases may be out at once, and returns not be read yet: return i stands at i modulo this.
inline constexpr uint64_t kMostLeases = 8192;

struct LeaseBoardLayout {
  std::atomic<uint64_t> count;  // of returns begun
  struct Return {
    std::atomic<uint64_t> lease;
    std::atomic<uint64_t> turn;  // i + 1, once the lease of return i stands there
  };
  Return returns[kMostLeases];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// The borrower's. Thread-safe. What a child of the process lets go of (fork(2)) the process may still read.
class LeaseBoard {
 public:
  static Result<std::shared_ptr<LeaseBoard>> Make() {
    auto segment = Segment::Make(sizeof(LeaseBoardLayout));
    if (!segment) return segment.failure();
    return std::make_shared<LeaseBoard>(std::move(segment).value());
  }
  explicit LeaseBoard(std::shared_ptr<Segment> segment) : segment_(std::move(segment)) {}

  void Return(uint64_t lease) {
    if (!process_.IsItself()) return;
    const uint64_t turn = layout().count.fetch_add(1, std::memory_order_relaxed);
    LeaseBoardLayout::Return& place = layout().returns[turn % kMostLeases];
    place.lease.store(lease, std::memory_order_relaxed);
    place.turn.store(turn + 1, std::memory_order_release);
  }
  uint64_t count() const { return layout().count.load(std::memory_order_relaxed); }
  int fd() const { return segment_->fd(); }

 private:
  LeaseBoardLayout& layout() const { return *reinterpret_cast<LeaseBoardLayout*>(segment_->data()); }
  const std::shared_ptr<Segment> segment_;  // of zeros: no turn is 0
  const ThisProcess process_;
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

  // The lease of the i-th return; nullopt: it is not there yet.
  std::optional<uint64_t> Returned(uint64_t i) const {
    const LeaseBoardLayout::Return& place = layout().returns[i % kMostLeases];
    if (place.turn.load(std::memory_order_acquire) != i + 1) return std::nullopt;
    return place.lease.load(std::memory_order_relaxed);
  }

 private:
  const LeaseBoardLayout& layout() const {
    return *reinterpret_cast<const LeaseBoardLayout*>(mapping_->bytes().data());
  }
  const std::shared_ptr<const Mapping> mapping_;
};

}  // namespace sluice::transport

// A heap whose blocks other processes may read in place. Behind the Allocator seam: what is to travel between
// processes of a host without a copy lies here.
//
// Small blocks, which are cheaper copied than lent, and what cannot be had as shared memory come from the
// process's own heap. Thread-safe.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "base/buffer.h"
#include "transport/shm/segment.h"

namespace sluice::transport {

class SharedHeap final : public Allocator {
 public:
  struct Options {
    // Memory comes in segments of this size; a larger block has one of its own, given back with the block.
    size_t segment_bytes = size_t{64} << 20;
    size_t min_leased_bytes = 4096;  // bytes of a payload frame; what is smaller travels in messages
  };
  SharedHeap() : SharedHeap(Options{}) {}
  explicit SharedHeap(const Options& options) : options_(options) {}
  ~SharedHeap() override;
  SharedHeap(const SharedHeap&) = delete;
  SharedHeap& operator=(const SharedHeap&) = delete;

  void* Allocate(size_t size) override;
  void Deallocate(void* data, size_t size) noexcept override;

  size_t min_leased_bytes() const { return options_.min_leased_bytes; }
  // Where a block's bytes lie. The segment's number is never another's.
  struct Location {
    uint64_t number = 0;
    std::shared_ptr<const ShmSegment> segment;
    size_t offset = 0;
  };
  std::optional<Location> Find(Bytes bytes) const;
  // Whether a segment still exists; and how many have gone, to know when to ask.
  bool Has(uint64_t number) const;
  uint64_t gone() const { return gone_.load(std::memory_order_relaxed); }

 private:
  struct Arena {
    uint64_t number = 0;
    std::shared_ptr<ShmSegment> segment;
    std::map<size_t, size_t> free;  // offset -> bytes; no two touch
    size_t used = 0;
  };
  using Arenas = std::map<const std::byte*, Arena>;  // by address
  // With the lock.
  Arenas::const_iterator ArenaOf(const void* data) const;
  std::byte* Take(Arena* arena, size_t bytes);
  Arena* Grow(size_t bytes);

  const Options options_;
  const std::shared_ptr<Allocator> heap_ = HeapAllocator();
  std::atomic<uint64_t> gone_ = 0;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  Arenas arenas_;
  std::set<uint64_t> numbers_;
  uint64_t last_number_ = 0;
  bool failed_ = false;  // there was no shared memory to be had, and it was said
};

}  // namespace sluice::transport

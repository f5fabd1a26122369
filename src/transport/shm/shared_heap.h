// An Allocator whose blocks other processes may read in place: data that is to reach other processes of the
// host without a copy is allocated here.
//
// Small blocks, for which a copy is cheaper than a lease, and blocks for which there is no shared memory come
// from the process's own heap. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/buffer.h"
#include "base/mutex.h"
#include "transport/shm/segment.h"

namespace sluice::transport {

class SharedHeap final : public Allocator {
 public:
  struct Options {
    // Memory is taken in segments of this size; a larger block has a segment of its own, freed with it.
    size_t segment_bytes = size_t{64} << 20;
    size_t min_leased_bytes = 4096;  // smaller payload frames travel in messages
    // Called with the memory of a segment when it has been mapped, and before it is unmapped; may be empty.
    // The second is called on any thread, maybe after the heap is gone.
    std::function<void(MutableBytes)> mapped = {}, unmapping = {};
    // The same for a segment of a peer, which this process reads.
    std::function<void(Bytes)> peer_mapped = {}, peer_unmapping = {};
  };
  SharedHeap() : SharedHeap(Options{}) {}
  explicit SharedHeap(const Options& options) : options_(options) {}
  ~SharedHeap() override;
  SharedHeap(const SharedHeap&) = delete;
  SharedHeap& operator=(const SharedHeap&) = delete;

  void* Allocate(size_t size) override;
  void Deallocate(void* data, size_t size) noexcept override;

  size_t min_leased_bytes() const { return options_.min_leased_bytes; }
  // Where a block's bytes lie. The number is the segment's, and is never reused.
  struct Location {
    uint64_t number = 0;
    std::shared_ptr<const ShmSegment> segment;
    size_t offset = 0;
  };
  std::optional<Location> Find(Bytes bytes) const;
  // Calls Options::peer_mapped with the segment of a peer, and returns it; its end calls peer_unmapping.
  std::shared_ptr<const ShmMapping> Announced(std::shared_ptr<const ShmMapping> of_peer) const;
  // Returns whether a segment still exists. gone() is the number of segments that do not: while it is the
  // same, there is no need to ask again.
  bool Has(uint64_t number) const;
  uint64_t gone() const { return gone_.load(std::memory_order_relaxed); }

 private:
  struct Arena {
    uint64_t number = 0;
    std::shared_ptr<ShmSegment> segment;
    std::map<size_t, size_t> free;  // offset -> bytes; no two ranges touch
    size_t used = 0;
  };
  using Arenas = std::map<const std::byte*, Arena>;  // by address
  Arenas::const_iterator ArenaOf(const void* data) const SLUICE_REQUIRES(mutex_);
  std::byte* Take(Arena* arena, size_t bytes) SLUICE_REQUIRES(mutex_);
  // Calls options_.mapped, and returns the segment, whose end calls options_.unmapping.
  std::shared_ptr<ShmSegment> Announced(std::shared_ptr<ShmSegment> segment) const;
  Arena* Grow(size_t bytes) SLUICE_REQUIRES(mutex_);

  const Options options_;
  const std::shared_ptr<Allocator> heap_ = HeapAllocator();
  std::atomic<uint64_t> gone_ = 0;
  mutable Mutex mutex_;
  Arenas arenas_ SLUICE_GUARDED_BY(mutex_);
  std::set<uint64_t> numbers_ SLUICE_GUARDED_BY(mutex_);
  uint64_t last_number_ SLUICE_GUARDED_BY(mutex_) = 0;
  bool failed_ SLUICE_GUARDED_BY(mutex_) = false;  // the lack of shared memory has been logged
};

}  // namespace sluice::transport

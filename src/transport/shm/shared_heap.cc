// Blocks of whole pages in shared segments, by first fit: each Arena is one segment with the list of its free
// ranges. Segments of the usual size are kept for ever; a segment that was made for one larger block is freed
// with it. Invariants: no two free ranges of an arena touch, and `used` and the free ranges add up to the
// segment. The device's allocator pool and a server's shards allocate here, on any thread.
#include "transport/shm/shared_heap.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/log.h"

namespace sluice::transport {
namespace {

constexpr size_t kPage = 4096;

size_t RoundedUp(size_t size) {
  return (size + kPage - 1) / kPage * kPage;
}

}  // namespace

SharedHeap::~SharedHeap() = default;

void* SharedHeap::Allocate(size_t size) {
  if (size >= options_.min_leased_bytes && size <= SIZE_MAX - kPage) {
    const size_t bytes = RoundedUp(size);
    const MutexLock lock(mutex_);
    for (auto& [address, arena] : arenas_) {
      if (std::byte* data = Take(&arena, bytes)) return data;
    }
    if (Arena* arena = Grow(bytes)) return Take(arena, bytes);
  }
  return heap_->Allocate(size);
}

// Takes the first range that is large enough. A linear search is enough, since blocks that are allocated and
// freed often go through a pool above this heap.
std::byte* SharedHeap::Take(Arena* arena, size_t bytes) {
  const auto hole = std::find_if(arena->free.begin(), arena->free.end(),
                                 [&](const auto& range) { return range.second >= bytes; });
  if (hole == arena->free.end()) return nullptr;
  const auto [offset, length] = *hole;
  arena->free.erase(hole);
  if (length > bytes) arena->free.emplace(offset + bytes, length - bytes);
  arena->used += bytes;
  return arena->segment->data() + offset;
}

std::shared_ptr<ShmSegment> SharedHeap::Announced(std::shared_ptr<ShmSegment> segment) const {
  const MutableBytes memory{segment->data(), segment->size()};
  if (options_.mapped) options_.mapped(memory);
  if (!options_.unmapping) return segment;
  ShmSegment* const made = segment.get();
  return {made, [segment = std::move(segment), unmapping = options_.unmapping, memory](ShmSegment*) {
            unmapping(memory);  // `segment` unmaps it afterwards
          }};
}

std::shared_ptr<const ShmMapping> SharedHeap::Announced(std::shared_ptr<const ShmMapping> of_peer) const {
  const Bytes memory = of_peer->bytes();
  if (options_.peer_mapped) options_.peer_mapped(memory);
  if (!options_.peer_unmapping) return of_peer;
  const ShmMapping* const mapped = of_peer.get();
  return {mapped, [of_peer = std::move(of_peer), unmapping = options_.peer_unmapping,
                   memory](const ShmMapping*) { unmapping(memory); }};
}

SharedHeap::Arena* SharedHeap::Grow(size_t bytes) {
  auto made = ShmSegment::Make(std::max(bytes, options_.segment_bytes));
  if (!made) {
    if (!std::exchange(failed_, true))
      LOG(WARNING) << WrapLogged(
          StrCat(made.failure().message, "; what does not fit is copied between processes"));
    return nullptr;
  }
  const std::shared_ptr<ShmSegment> segment = Announced(std::move(made).value());
  Arena& arena = arenas_[segment->data()];
  arena = {++last_number_, segment, {{0, segment->size()}}, 0};
  numbers_.insert(arena.number);
  return &arena;
}

void SharedHeap::Deallocate(void* data, size_t size) noexcept {
  if (InForkedChild()) return;
  std::shared_ptr<ShmSegment> unused;  // unmapped after mutex_ is released
  {
    const MutexLock lock(mutex_);
    const auto it = ArenaOf(data);
    if (it == arenas_.end()) return heap_->Deallocate(data, size);
    Arena& arena = arenas_.at(it->first);
    size_t offset = static_cast<size_t>(static_cast<std::byte*>(data) - it->first), bytes = RoundedUp(size);
    arena.used -= bytes;
    auto next = arena.free.lower_bound(offset);
    if (next != arena.free.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = arena.free.erase(next);
    }
    if (next != arena.free.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += bytes;
        bytes = 0;
      }
    }
    if (bytes > 0) arena.free.emplace(offset, bytes);
    if (arena.used > 0 || arena.segment->size() <= options_.segment_bytes) return;
    unused = arena.segment;
    numbers_.erase(arena.number);
    arenas_.erase(it);
    gone_.fetch_add(1, std::memory_order_relaxed);
  }
}

SharedHeap::Arenas::const_iterator SharedHeap::ArenaOf(const void* data) const {
  const auto* address = static_cast<const std::byte*>(data);
  auto it = arenas_.upper_bound(address);
  if (it == arenas_.begin()) return arenas_.end();
  --it;
  return address < it->first + it->second.segment->size() ? it : arenas_.end();
}

std::optional<SharedHeap::Location> SharedHeap::Find(Bytes bytes) const {
  const MutexLock lock(mutex_);
  const auto it = ArenaOf(bytes.data());
  if (it == arenas_.end()) return std::nullopt;
  const auto offset = static_cast<size_t>(bytes.data() - it->first);
  SLUICE_CHECK(bytes.size() <= it->second.segment->size() - offset) << "a frame beyond its block";
  return Location{it->second.number, it->second.segment, offset};
}

bool SharedHeap::Has(uint64_t number) const {
  const MutexLock lock(mutex_);
  return numbers_.contains(number);
}

}  // namespace sluice::transport

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
  if (size >= options_.smallest_lent && size <= SIZE_MAX - kPage) {
    const size_t bytes = RoundedUp(size);
    const std::lock_guard lock(mutex_);
    for (auto& [address, part] : parts_) {
      if (std::byte* data = Take(&part, bytes)) return data;
    }
    if (Part* part = Grow(bytes)) return Take(part, bytes);
  }
  return heap_->Allocate(size);
}

// The first that is large enough: what comes and goes often goes through a pool above.
std::byte* SharedHeap::Take(Part* part, size_t bytes) {
  const auto hole = std::find_if(part->free.begin(), part->free.end(),
                                 [&](const auto& range) { return range.second >= bytes; });
  if (hole == part->free.end()) return nullptr;
  const auto [offset, length] = *hole;
  part->free.erase(hole);
  if (length > bytes) part->free.emplace(offset + bytes, length - bytes);
  part->used += bytes;
  return part->segment->data() + offset;
}

SharedHeap::Part* SharedHeap::Grow(size_t bytes) {
  auto made = Segment::Make(std::max(bytes, options_.segment_bytes));
  if (!made) {
    if (!std::exchange(failed_, true))
      LOG(WARNING) << WrapLogged(
          StrCat(made.failure().message, "; what does not fit is copied between processes"));
    return nullptr;
  }
  const std::shared_ptr<Segment> segment = std::move(made).value();
  Part& part = parts_[segment->data()];
  part = {++last_number_, segment, {{0, segment->size()}}, 0};
  numbers_.insert(part.number);
  return &part;
}

void SharedHeap::Deallocate(void* data, size_t size) noexcept {
  std::shared_ptr<Segment> unused;  // unmapped without the lock
  {
    const std::lock_guard lock(mutex_);
    const auto it = PartOf(data);
    if (it == parts_.end()) return heap_->Deallocate(data, size);
    Part& part = parts_.at(it->first);
    size_t offset = static_cast<size_t>(static_cast<std::byte*>(data) - it->first), bytes = RoundedUp(size);
    part.used -= bytes;
    auto next = part.free.lower_bound(offset);
    if (next != part.free.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = part.free.erase(next);
    }
    if (next != part.free.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += bytes;
        bytes = 0;
      }
    }
    if (bytes > 0) part.free.emplace(offset, bytes);
    if (part.used > 0 || part.segment->size() <= options_.segment_bytes) return;
    unused = part.segment;
    numbers_.erase(part.number);
    parts_.erase(it);
    gone_.fetch_add(1, std::memory_order_relaxed);
  }
}

SharedHeap::Parts::const_iterator SharedHeap::PartOf(const void* data) const {
  const auto* address = static_cast<const std::byte*>(data);
  auto it = parts_.upper_bound(address);
  if (it == parts_.begin()) return parts_.end();
  --it;
  return address < it->first + it->second.segment->size() ? it : parts_.end();
}

std::optional<SharedHeap::Place> SharedHeap::Find(Bytes bytes) const {
  const std::lock_guard lock(mutex_);
  const auto it = PartOf(bytes.data());
  if (it == parts_.end()) return std::nullopt;
  const auto offset = static_cast<size_t>(bytes.data() - it->first);
  SLUICE_CHECK(bytes.size() <= it->second.segment->size() - offset) << "a frame beyond its block";
  return Place{it->second.number, it->second.segment, offset};
}

bool SharedHeap::Has(uint64_t number) const {
  const std::lock_guard lock(mutex_);
  return numbers_.contains(number);
}

}  // namespace sluice::transport

// An allocator that keeps freed blocks for later requests of about the same size: the arrays, events and
// graph nodes of each training step have the same sizes, and fresh pages are slow. Thread-safe.
#pragma once

#include <array>
#include <memory>

#include "base/buffer.h"
#include "base/quick_mutex.h"

namespace sluice {

class PoolAllocator final : public Allocator {
 public:
  // Blocks come from `from`, which the pool keeps alive, since the default devices are destroyed after main.
  // At most `max_kept_bytes` of free blocks are kept; further ones are given back to `from`.
  explicit PoolAllocator(size_t max_kept_bytes = size_t{1} << 30,
                         std::shared_ptr<Allocator> from = HeapAllocator())
      : from_(std::move(from)), max_kept_(max_kept_bytes) {}
  ~PoolAllocator() override;
  PoolAllocator(const PoolAllocator&) = delete;
  PoolAllocator& operator=(const PoolAllocator&) = delete;
  void* Allocate(size_t size) override;
  void Deallocate(void* data, size_t size) noexcept override;
  BlockBytes in_use() override;

  // Returns the size of the block for `size` bytes. Sizes are rounded up to powers of two and the quarters
  // between them, so that sizes that differ a little share blocks.
  static size_t BlockSize(size_t size) { return Place(size).block; }

 private:
  // A free block begins with the address of the next free one.
  struct Free {
    Free* next;
  };
  static constexpr size_t kClasses = 4 * 64;  // NOLINT(bugprone-implicit-widening-of-multiplication-result)
  struct BlockPlace {
    size_t block, size_class;
  };
  static BlockPlace Place(size_t size);
  static size_t BlockOf(size_t size_class);

  const std::shared_ptr<Allocator> from_;
  const size_t max_kept_;
  QuickMutex mutex_;
  std::array<Free*, kClasses> kept_ SLUICE_GUARDED_BY(mutex_){};  // free blocks by size class
  size_t kept_bytes_ SLUICE_GUARDED_BY(mutex_) = 0;
  BlockBytes in_use_ SLUICE_GUARDED_BY(mutex_);
};

// A standard allocator, for std::allocate_shared and containers, whose memory comes from an
// Allocator. It keeps the Allocator alive.
//
//   auto node = std::allocate_shared<Node>(MemoryOf<Node>(pool), ...);
template <typename T>
class MemoryOf {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  explicit MemoryOf(std::shared_ptr<Allocator> allocator) : allocator_(std::move(allocator)) {}
  template <typename U>
  MemoryOf(const MemoryOf<U>& other)  // NOLINT(google-explicit-constructor): required by the standard
      : allocator_(other.allocator()) {}

  T* allocate(size_t n) {
    static_assert(alignof(T) <= 64);
    return static_cast<T*>(allocator_->Allocate(n * sizeof(T)));
  }
  void deallocate(T* data, size_t n) noexcept { allocator_->Deallocate(data, n * sizeof(T)); }
  const std::shared_ptr<Allocator>& allocator() const { return allocator_; }
  template <typename U>
  bool operator==(const MemoryOf<U>& other) const {
    return allocator_ == other.allocator();
  }

 private:
  std::shared_ptr<Allocator> allocator_;
};

}  // namespace sluice

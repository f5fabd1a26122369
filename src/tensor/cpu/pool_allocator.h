// Keeps freed blocks for the next array of about the same size: a step's arrays come and go with the same
// sizes, and fresh pages are slow.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/buffer.h"

namespace sluice {

class PoolAllocator final : public Allocator {
 public:
  explicit PoolAllocator(size_t max_kept_bytes = size_t{1} << 30) : max_kept_(max_kept_bytes) {}
  ~PoolAllocator() override;
  void* Allocate(size_t size) override;
  void Deallocate(void* data, size_t size) noexcept override;

  // Rounded up, so that sizes that differ a little share blocks: powers of two and the quarters between.
  static size_t BlockSize(size_t size);

 private:
  const std::shared_ptr<Allocator> heap_ =
      HeapAllocator();  // its own handle: the default devices end after main
  const size_t max_kept_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::map<size_t, std::vector<void*>> kept_;
  size_t kept_bytes_ = 0;
};

}  // namespace sluice

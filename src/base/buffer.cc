#include "base/buffer.h"

#include <algorithm>
#include <cstdlib>

#include "base/limits.h"
#include "base/strings.h"
#include "sluice/error.h"

namespace sluice {
namespace {

class Heap final : public Allocator {
 public:
  void* Allocate(size_t size) override {
    const size_t alignment = size >= kPageBlock ? 4096 : 64;
    const size_t rounded = (std::max<size_t>(size, 1) + alignment - 1) / alignment * alignment;
    void* data = rounded >= size ? std::aligned_alloc(alignment, rounded) : nullptr;
    if (data == nullptr) {
      throw Error(ErrorCode::kResourceExhausted,
                  StrCat("out of memory: could not allocate ", HumanBytes(size), "; ", MemoryLimitText()));
    }
    return data;
  }
  void Deallocate(void* data, size_t) noexcept override { std::free(data); }

 private:
  static constexpr size_t kPageBlock = size_t{64} << 10;
};

}  // namespace

std::shared_ptr<Allocator> HeapAllocator() {
  static const auto heap = std::make_shared<Heap>();  // stateless
  return heap;
}

Buffer::Buffer(size_t size, std::shared_ptr<Allocator> allocator)
    : allocator_(std::move(allocator)),
      data_(static_cast<std::byte*>(allocator_->Allocate(size))),
      size_(size) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    Reset();
    allocator_ = std::move(other.allocator_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void Buffer::Reset() noexcept {
  if (data_ != nullptr) allocator_->Deallocate(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

Frame Frame::Copy(Bytes bytes) {
  auto buffer = std::make_shared<Buffer>(bytes.size());
  if (!bytes.empty()) std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return Frame::Of(std::move(buffer));
}

}  // namespace sluice

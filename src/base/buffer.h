// Memory: an Allocator provides it, a Buffer owns it, and a Frame shares it for reading while it travels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace sluice {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// The bytes of the blocks that an allocator has given out: now, and the most so far.
struct BlockBytes {
  size_t now = 0, most = 0;
  void Add(size_t bytes) { most = std::max(most, now += bytes); }
  void Remove(size_t bytes) { now -= bytes; }
};

// A source of memory: the heap, or memory that other processes may read (transport/shm). Thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // Returns at least `size` bytes, 64-byte aligned, contents undefined. Throws Error(kResourceExhausted).
  virtual void* Allocate(size_t size) = 0;
  // Frees what Allocate(size) returned.
  virtual void Deallocate(void* data, size_t size) noexcept = 0;
  virtual BlockBytes in_use() { return {}; }  // zeros where the allocator does not count
};

// Returns the allocator of the heap. Blocks of 64 KiB or more begin on a page of their own.
std::shared_ptr<Allocator> HeapAllocator();

// Owns one block of memory. Move-only; keeps its allocator alive. The contents are undefined at first.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t size, std::shared_ptr<Allocator> allocator = HeapAllocator());
  ~Buffer() { Reset(); }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  MutableBytes bytes() { return {data_, size_}; }
  Bytes bytes() const { return {data_, size_}; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  void Reset() noexcept;
  std::shared_ptr<Allocator> allocator_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A lease of memory that belongs to another process. Its destructor returns the memory to that process.
class Lease {
 public:
  // `mapping` keeps the pages mapped at their addresses, even after the lease;
  // null: they are not mapped pages.
  explicit Lease(std::shared_ptr<const void> mapping) : mapping_(std::move(mapping)) {}
  virtual ~Lease() = default;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  const std::shared_ptr<const void>& mapping() const { return mapping_; }

 private:
  const std::shared_ptr<const void> mapping_;
};

// Read-only bytes, with an owner that keeps them alive: a received network frame, a version of a weight, an
// application's array. Copies share the bytes, which must not change while any copy lives. Thread-safe as
// shared_ptr is. The data of a received frame may lie at any alignment.
//
// The memory may be leased from another process. That process waits until it gets the memory back; it has
// promised not to change it meanwhile, but nothing enforces that. So bytes that must be checked before they
// are used are checked in a copy (ToOwned).
class Frame {
 public:
  Frame() = default;
  Frame(Bytes bytes, std::shared_ptr<const void> owner) : bytes_(bytes), owner_(std::move(owner)) {}
  static Frame Leased(Bytes bytes, std::shared_ptr<const Lease> lease) {
    Frame frame(bytes, std::move(lease));
    frame.leased_ = true;
    return frame;
  }
  // Returns a frame that owns a copy of `bytes`.
  static Frame Copy(Bytes bytes);
  static Frame Of(std::shared_ptr<const Buffer> buffer) {
    const Bytes bytes = buffer->bytes();
    return Frame(bytes, std::move(buffer));
  }

  Bytes bytes() const { return bytes_; }
  const std::byte* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  bool leased() const { return leased_; }
  // Returns null if the memory is not leased.
  const Lease* lease() const { return leased_ ? static_cast<const Lease*>(owner_.get()) : nullptr; }
  // Returns this frame, or a copy of the bytes if they are leased.
  Frame ToOwned() const { return leased_ ? Copy(bytes_) : *this; }
  // Returns a part of this frame, with the same owner.
  Frame Slice(size_t offset, size_t length) const {
    Frame slice(bytes_.subspan(offset, length), owner_);
    slice.leased_ = leased_;
    return slice;
  }

 private:
  Bytes bytes_;
  std::shared_ptr<const void> owner_;
  bool leased_ = false;
};

inline Bytes AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view AsText(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace sluice

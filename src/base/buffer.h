// Memory: who gives it (Allocator), who owns it (Buffer), and who may read it while it travels (Frame).
#pragma once

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

// Where memory comes from: the heap, or memory that other processes may read (transport/shm). Thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // At least `size` bytes, 64-byte aligned, contents undefined. Throws Error(kResourceExhausted).
  virtual void* Allocate(size_t size) = 0;
  virtual void Deallocate(void* data, size_t size) noexcept = 0;
};

// The heap. Large blocks start on their own page.
std::shared_ptr<Allocator> HeapAllocator();

// Owns one block. Move-only; keeps its allocator alive.
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

// Memory that another process has lent, until this goes.
class Lease {
 public:
  // `mapping`: keeps its pages mapped where they are, beyond the lease; null: no pages of a mapping.
  explicit Lease(std::shared_ptr<const void> mapping) : mapping_(std::move(mapping)) {}
  virtual ~Lease() = default;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  const std::shared_ptr<const void>& mapping() const { return mapping_; }

 private:
  const std::shared_ptr<const void> mapping_;
};

// Read-only bytes together with whatever keeps them alive: a received network frame, a weight version, an
// application's array. Copies share; the bytes must not change while any copy lives. Thread-safe as
// shared_ptr is. The data of a received frame may lie at any alignment.
//
// The memory may be another process's, which has lent it: that one waits to have it back, and only its word
// keeps it from changing meanwhile. What must be checked before it is used is checked in a copy: see Own.
class Frame {
 public:
  Frame() = default;
  Frame(Bytes bytes, std::shared_ptr<const void> owner) : bytes_(bytes), owner_(std::move(owner)) {}
  static Frame Leased(Bytes bytes, std::shared_ptr<const Lease> lease) {
    Frame frame(bytes, std::move(lease));
    frame.leased_ = true;
    return frame;
  }
  // Owns a copy of `bytes`.
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
  // Null where nothing is borrowed.
  const Lease* lease() const { return leased_ ? static_cast<const Lease*>(owner_.get()) : nullptr; }
  // This frame, or where it is borrowed a copy.
  Frame ToOwned() const { return leased_ ? Copy(bytes_) : *this; }
  // A part of this frame with the same owner.
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

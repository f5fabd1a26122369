// One part's weight as replies share it: never changed while a reply that carries it is on its way.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "base/buffer.h"
#include "sluice/compression.h"

namespace sluice::server {

class VersionedWeight {
 public:
  explicit VersionedWeight(size_t bytes, std::shared_ptr<Allocator> memory = HeapAllocator())
      : memory_(std::move(memory)), current_(std::make_shared<Version>(bytes, memory_)) {}

  const std::byte* data() const { return current_->buffer.data(); }
  size_t size() const { return current_->buffer.size(); }
  // The weight as it is now, for a reply; no copy. Rounded (kFloat16, kBFloat16: of float32), once for all
  // who ask for a version so. The frame may be released on any thread.
  Frame Share(Compression as = Compression::kNone);
  // Where the next version is to be written: the current memory when nobody reads it, else other memory.
  // Publish() makes it current.
  std::byte* Next();
  void Publish();

 private:
  struct Version {
    Version(size_t bytes, const std::shared_ptr<Allocator>& memory) : buffer(bytes, memory) {}
    Buffer buffer;
    std::atomic<int> readers = 0;
    bool Unread() const { return readers.load(std::memory_order_acquire) == 0; }
  };
  // The current version in 16 bits an element.
  struct Rounded {
    std::shared_ptr<Version> version;
    bool fresh = false;
  };
  static Frame Lease(const std::shared_ptr<Version>& version);

  std::shared_ptr<Allocator> memory_;
  std::shared_ptr<Version> current_;
  std::shared_ptr<Version> spare_;  // the one before, for reuse once its readers are gone
  bool in_place_ = false;
  std::array<Rounded, 2> rounded_;  // fp16, bf16
};

}  // namespace sluice::server

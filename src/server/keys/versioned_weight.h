// The weight of one part. Replies share its memory, which does not change while a
// reply that carries it is in use.
//
// Thread safety: one thread at a time; the frames of Share may be released on any thread.
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
  // Returns the current weight for a reply, without a copy. With kFloat16 or kBFloat16 (float32 weights
  // only) it returns a rounded copy, which is made once per version.
  Frame Share(Compression as = Compression::kNone);
  // Returns the memory into which the next version is to be written: the current memory when no frame of
  // Share refers to it, else other memory. Publish() then makes it the current version.
  std::byte* Next();
  void Publish();

 private:
  struct Version {
    Version(size_t bytes, const std::shared_ptr<Allocator>& memory) : buffer(bytes, memory) {}
    Buffer buffer;
    std::atomic<int> readers = 0;
    bool Unread() const { return readers.load(std::memory_order_acquire) == 0; }
  };
  // The weight in 16 bits per element.
  struct Rounded {
    std::shared_ptr<Version> version;
    bool fresh = false;  // `version` is that of the current weight
  };
  static Frame Lease(const std::shared_ptr<Version>& version);

  std::shared_ptr<Allocator> memory_;
  std::shared_ptr<Version> current_;
  std::shared_ptr<Version> spare_;  // the former version; reused once its readers are gone
  bool in_place_ = false;
  std::array<Rounded, 2> rounded_;  // fp16, bf16
};

}  // namespace sluice::server

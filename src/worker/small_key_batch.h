// Small keys of one call that lie on one server: one operation of the client's, and of a push one block of
// memory with their gradients, from which they are sent. For each by itself what surrounds its bytes would
// cost several times what they do.
//
// Thread safety: one caller.
#pragma once

#include <memory>

#include "base/buffer.h"
#include "tensor/stream.h"
#include "worker/client.h"

namespace sluice::worker {

class SmallKeyBatch {
 public:
  // Gradients of larger keys are sent from where they lie.
  static constexpr size_t kMostKeyBytes = 16 << 10;
  // Of a bundle: nothing overtakes it.
  static constexpr size_t kMostBytes = 256 << 10;

  // `common`: what goes for all. `keys` and `bytes`: how much is to come, if all of it fits. `done`: the end.
  SmallKeyBatch(const SmallKeyBatchArgs& common, size_t keys, size_t bytes,
                const std::shared_ptr<Allocator>& memory, Event done);
  bool HasRoomFor(size_t bytes) const { return bytes_ + bytes <= most_; }
  // `gradient` is copied; none for a pull. Where its value has landed `landed` completes.
  void Add(uint32_t key, size_t bytes, const std::byte* gradient);
  void Add(uint32_t key, size_t bytes, const std::byte* gradient, Destination destination,
           const Event& delivered);
  // What the client is to do; once.
  SmallKeyBatchArgs Take();
  const Event& done() const { return done_; }

 private:
  SmallKeyBatchArgs args_;
  size_t most_;
  size_t bytes_ = 0;
  std::shared_ptr<Buffer> block_;  // null: nothing is sent
  Event done_;
};

}  // namespace sluice::worker

// The small keys of one call that lie on one shard, as one operation of the client. A push copies their
// gradients into one block, from which they are sent. For each key alone the bookkeeping would cost several
// times as much as moving its bytes.
//
// Thread safety: one thread.
#pragma once

#include <memory>

#include "base/buffer.h"
#include "tensor/stream.h"
#include "worker/client.h"

namespace sluice::worker {

class SmallKeyBatch {
 public:
  // The largest small key. Gradients of larger keys are sent without a copy.
  static constexpr size_t kMostKeyBytes = 16 << 10;
  // The most bytes of one batch, since nothing overtakes it.
  static constexpr size_t kMostBytes = 256 << 10;

  // `op` has all but its keys and its source. `bytes` are those that the call has in all; the batch takes
  // as many of them as fit. `done` completes when the operation has ended.
  SmallKeyBatch(std::shared_ptr<Operation> op, size_t bytes, const std::shared_ptr<Allocator>& memory,
                Event done);
  bool HasRoomFor(size_t bytes) const { return bytes_ + bytes <= most_; }
  // Adds a key. `gradient` is copied; it is null for a pull. `delivered` completes when the key's value has
  // been delivered to `destination`, or with an error.
  void Add(uint32_t key, size_t bytes, const std::byte* gradient);
  void Add(uint32_t key, size_t bytes, const std::byte* gradient, Destination destination,
           const Event& delivered);
  // Moves the operation out, for Client::Submit. Call it once.
  std::shared_ptr<Operation> Take();
  const Event& done() const { return done_; }

 private:
  std::shared_ptr<Operation> op_;
  size_t most_;
  size_t bytes_ = 0;
  std::shared_ptr<Buffer> block_;  // the gradients; null for a pull
  Event done_;
};

}  // namespace sluice::worker

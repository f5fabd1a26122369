#include "worker/small_key_batch.h"

#include <algorithm>
#include <cstring>

#include "base/pool_allocator.h"
#include "worker/event_completer.h"

namespace sluice::worker {

SmallKeyBatch::SmallKeyBatch(std::shared_ptr<Operation> op, size_t bytes,
                             const std::shared_ptr<Allocator>& memory, Event done)
    : op_(std::move(op)), most_(std::min(bytes, kMostBytes)), done_(std::move(done)) {
  if (op_->IsPush()) block_ = std::allocate_shared<Buffer>(MemoryOf<Buffer>(memory), most_, memory);
}

void SmallKeyBatch::Add(uint32_t key, size_t bytes, const std::byte* gradient) {
  if (block_ != nullptr) std::memcpy(block_->data() + bytes_, gradient, bytes);
  bytes_ += bytes;
  op_->keys.push_back({.key = key, .round = 0, .destination = {}});
}

void SmallKeyBatch::Add(uint32_t key, size_t bytes, const std::byte* gradient, Destination destination,
                        const Event& delivered) {
  Add(key, bytes, gradient);
  op_->keys.back().destination = std::move(destination);
  op_->keys.back().callback = ScopedCompleter(delivered);
}

std::shared_ptr<Operation> SmallKeyBatch::Take() {
  if (block_ != nullptr) op_->source = Frame(Bytes(block_->data(), bytes_), block_);
  op_->copied = op_->source.size();
  return std::move(op_);
}

}  // namespace sluice::worker

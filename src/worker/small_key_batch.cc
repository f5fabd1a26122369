#include "worker/small_key_batch.h"

#include <algorithm>
#include <cstring>

#include "base/pool_allocator.h"
#include "worker/event_completer.h"

namespace sluice::worker {

SmallKeyBatch::SmallKeyBatch(const SmallKeyBatchArgs& common, size_t keys, size_t bytes,
                             const std::shared_ptr<Allocator>& memory, Event done)
    : args_{.kind = common.kind,
            .source = {},
            .priority = common.priority,
            .samples = common.samples,
            .divisor = common.divisor,
            .latest = common.latest},
      most_(std::min(bytes, kMostBytes)),
      done_(std::move(done)) {
  args_.keys.reserve(keys);
  if (args_.kind != OpKind::kPull)
    block_ = std::allocate_shared<Buffer>(MemoryOf<Buffer>(memory), most_, memory);
}

void SmallKeyBatch::Add(uint32_t key, size_t bytes, const std::byte* gradient) {
  if (block_ != nullptr) std::memcpy(block_->data() + bytes_, gradient, bytes);
  bytes_ += bytes;
  args_.keys.push_back({.key = key, .round = 0, .destination = {}});
}

void SmallKeyBatch::Add(uint32_t key, size_t bytes, const std::byte* gradient, Destination destination,
                        const Event& delivered) {
  Add(key, bytes, gradient);
  args_.keys.back().destination = std::move(destination);
  args_.keys.back().callback = ScopedCompleter(delivered);
}

SmallKeyBatchArgs SmallKeyBatch::Take() {
  if (block_ != nullptr) args_.source = Frame(Bytes(block_->data(), bytes_), block_);
  return std::move(args_);
}

}  // namespace sluice::worker

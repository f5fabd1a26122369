// What waits to be sent to one shard: highest priority first, within a priority in order of issue; small
// parts of one kind go together.
#pragma once

#include "worker/operation.h"

namespace sluice::worker {

class SendQueue {
 public:
  explicit SendQueue(const std::shared_ptr<Allocator>& records) : queue_(MemoryOf<PartOpPtr>(records)) {}
  void Add(PartOpPtr op);
  void Clear() { queue_.clear(); }
  bool empty() const { return queue_.empty(); }
  size_t size() const { return queue_.size(); }
  // The next message's parts: one kind, one slot, for pushes one sample count and divisor, for pulls of rows
  // one operation. Not empty unless the queue is.
  PartOps NextBatch(size_t most_bytes);

  // Of the next part; the queue is not empty.
  int priority() const { return -queue_.begin()->first.first; }
  // Whether this queue's next part goes before the other's. Neither is empty.
  bool Before(const SendQueue& other) const { return queue_.begin()->first < other.queue_.begin()->first; }

  // Of pushes, where the link is fast: a window bounds them more tightly elsewhere. Answers to pulls come in
  // messages as large, which nothing overtakes, and a worker does not know how fast they come.
  static constexpr size_t kPushedBytes = 1 << 20;
  static constexpr size_t kPulledBytes = 256 << 10;
  static constexpr size_t kBatchParts = 256;

 private:
  static bool Together(const PartOp& a, const PartOp& b);
  RecordMap<std::pair<int, uint64_t>, PartOpPtr> queue_;  // by (-priority, order)
};

}  // namespace sluice::worker

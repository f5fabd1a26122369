// What waits to be sent to one shard: highest priority first, within a priority in order of issue; small
// parts of one kind go together.
#pragma once

#include "worker/operation.h"

namespace sluice::worker {

class SendQueue {
 public:
  explicit SendQueue(const std::shared_ptr<Allocator>& records)
      : records_(records), lines_(MemoryOf<Line>(records)) {}
  void Add(PartOpPtr op);
  void Clear() {
    lines_.clear();
    size_ = 0;
  }
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  // The next message's parts: one kind, one slot, for pushes one sample count, divisor and exponent, for
  // pulls of rows one operation. At most `most_bytes`, and of one pull of one key, whose values come one
  // after the other anyway, `most_of_one_pull`; all of it where its values are to be of one state. Not empty
  // unless the queue is.
  PartOps NextBatch(size_t most_bytes, size_t most_of_one_pull);

  // Of the next part; the queue is not empty.
  int priority() const { return -lines_.begin()->first; }
  // Whether this queue's next part goes before the other's. Neither is empty.
  bool Before(const SendQueue& other) const {
    return std::pair(-priority(), next().order) < std::pair(-other.priority(), other.next().order);
  }

  // Of pushes, where the link is fast: a window bounds them more tightly elsewhere. Answers to pulls come in
  // messages as large, which nothing overtakes, and a worker does not know how fast they come.
  static constexpr size_t kPushedBytes = 1 << 20;
  static constexpr size_t kPulledBytes = 256 << 10;
  static constexpr size_t kBatchParts = 256;

 private:
  // Of one priority, in order of issue. Mostly those that come later are behind those that came before.
  struct Line {
    explicit Line(const std::shared_ptr<Allocator>& records) : parts(MemoryOf<PartOpPtr>(records)) {
      parts.reserve(8);
    }
    std::vector<PartOpPtr, MemoryOf<PartOpPtr>> parts;
    size_t gone = 0;  // from the front
  };
  static bool CanShareMessage(const PartOp& a, const PartOp& b);
  const PartOp& next() const { return *Front(lines_.begin()->second); }
  static const PartOpPtr& Front(const Line& line) { return line.parts[line.gone]; }
  // The next part, which is no longer queued.
  PartOpPtr Take();

  std::shared_ptr<Allocator> records_;
  RecordMap<int, Line> lines_;  // by -priority; none is empty
  size_t size_ = 0;
};

}  // namespace sluice::worker

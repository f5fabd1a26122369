// The parts that wait to be sent to one shard in one lane: highest priority first, within a priority in
// order of issue. Small parts of one kind share a message.
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
  // Takes the parts of the next message. They have the same kind, number of samples, divisor, exponent and
  // compression, and belong to one operation if they pull rows. They have at most `most_bytes` together, or
  // one part has more. The parts of one pull of one key may have `most_of_one_pull`, since its values
  // arrive one after the other anyway, and stay together whatever their size when all must show one state.
  // Finished parts are dropped. The result is empty only if the queue is empty afterwards.
  PartOps NextBatch(size_t most_bytes, size_t most_of_one_pull);

  // The priority of the next part; the queue must not be empty.
  int priority() const { return -lines_.begin()->first; }
  // Whether this queue's next part goes before the other's. Neither queue may be empty.
  bool Before(const SendQueue& other) const {
    return std::pair(-priority(), next().order) < std::pair(-other.priority(), other.next().order);
  }

  // Bytes and parts of one message. Pushes reach kPushedBytes only on a fast link; elsewhere the window
  // bounds them more tightly. The answer to a pull is as large as what was asked for, nothing overtakes it,
  // and a worker does not know how fast answers arrive, so the limit for pulls is smaller.
  static constexpr size_t kPushedBytes = 1 << 20;
  static constexpr size_t kPulledBytes = 256 << 10;
  static constexpr size_t kBatchParts = 256;

 private:
  // The parts of one priority, in order of issue. Add inserts at the end in most cases.
  struct Line {
    explicit Line(const std::shared_ptr<Allocator>& records) : parts(MemoryOf<PartOpPtr>(records)) {
      parts.reserve(8);
    }
    std::vector<PartOpPtr, MemoryOf<PartOpPtr>> parts;
    size_t gone = 0;  // number of parts at the front that Take has moved out
  };
  static bool CanShareMessage(const PartOp& a, const PartOp& b);
  const PartOp& next() const { return *Front(lines_.begin()->second); }
  static const PartOpPtr& Front(const Line& line) { return line.parts[line.gone]; }
  // Removes and returns the next part.
  PartOpPtr Take();

  std::shared_ptr<Allocator> records_;
  RecordMap<int, Line> lines_;  // by -priority; no line is empty
  size_t size_ = 0;
};

}  // namespace sluice::worker

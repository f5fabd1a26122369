// Copies to GPUs that begin once their values have been delivered. The record of a copy owns its arrays and
// events until then. Invariants: the uses of the arrays are recorded when the copy is issued, so that what is
// issued later on them comes after it; each event completes once. The worker's stores call the functions on
// the thread that issues a pull; the rest runs on the threads that complete events.
#include "kvstore/copy_to_gpu.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/guarded.h"
#include "kvstore/joint_end.h"
#include "kvstore/store_common.h"

namespace sluice::kvstore {
namespace {

// Arrays on one GPU that get their values out of a block. Values that are there when the stream comes to a
// copy are copied together; whatever comes later does not hold them up.
class Scatter : public std::enable_shared_from_this<Scatter> {
 public:
  Scatter(NDArray block, const std::vector<BlockPart>& to, const std::shared_ptr<Allocator>& records)
      : block_(std::move(block)),
        between_(NDArray::Empty(block_.shape(), to.front().array.context(), block_.dtype())),
        records_(records) {
    for (const BlockPart& part : to)
      arrays_.push_back({part, Event::Make("copy to a GPU", nullptr, records)});
  }
  // Records the copies as the arrays' writes. `delivered` are the ends of their deliveries.
  void Start(const std::vector<Event>& delivered) {
    const Events uses = PendingUses(between_);
    for (size_t i = 0; i < arrays_.size(); ++i) {
      Events first = PendingUses(arrays_[i].to.array);
      for (const Event& use : uses) first.push_back(use);
      first.push_back(delivered[i]);
      SetWriter(arrays_[i].to.array, arrays_[i].done);
      WhenAll(
          first, [self = shared_from_this(), i](const std::exception_ptr& error) { self->Add(i, error); },
          records_);
    }
  }

 private:
  struct OneArray {
    BlockPart to;
    Event done;
  };
  struct Waiting {
    std::vector<size_t> arrays;  // that no copy has taken
    bool enqueued = false;       // a copy that will take them
  };
  using Taken = std::shared_ptr<std::vector<size_t>>;

  void Add(size_t array, const std::exception_ptr& error) {
    if (error != nullptr) return arrays_[array].done.Complete(error);
    const bool enqueues = waiting_.With([&](Waiting& waiting) {
      waiting.arrays.push_back(array);
      return !std::exchange(waiting.enqueued, true);
    });
    if (!enqueues) return;
    const auto taken = std::make_shared<std::vector<size_t>>();
    Event copied;
    try {
      copied = EnqueueScatterToGpu(block_, between_,
                                   [self = shared_from_this(), taken] { return self->Take(*taken); });
    } catch (...) {
      return Complete(taken, std::current_exception());
    }
    AddReader(block_, copied);
    SetWriter(between_, copied);
    copied.OnDone([self = shared_from_this(), taken](const std::exception_ptr& failure) {
      self->Complete(taken, failure);
    });
  }
  std::vector<BlockPart> Take(std::vector<size_t>& taken) {
    taken = waiting_.With([](Waiting& waiting) {
      waiting.enqueued = false;
      return std::exchange(waiting.arrays, {});
    });
    std::ranges::sort(taken);
    std::vector<BlockPart> parts;
    for (const size_t array : taken) parts.push_back(arrays_[array].to);
    return parts;
  }
  // A copy that never ran has not taken its arrays.
  void Complete(const Taken& taken, const std::exception_ptr& error) {
    if (taken->empty()) Take(*taken);
    for (const size_t array : *taken) arrays_[array].done.Complete(error);
  }

  const NDArray block_;
  NDArray between_;
  const std::shared_ptr<Allocator> records_;
  std::vector<OneArray> arrays_;
  Guarded<Waiting> waiting_;
};

// A copy of one array, part by part.
class Copy : public std::enable_shared_from_this<Copy> {
 public:
  Copy(const NDArray& from, const NDArray& to, size_t parts, const std::shared_ptr<Allocator>& records)
      : from_(from),
        bytes_(HostFrame(from)),
        to_(to),
        end_(Event::Make("copy to a GPU", nullptr, records), parts) {}
  void RecordUses() {
    AddReader(from_, end_.event());
    SetWriter(to_, end_.event());
  }
  // Copies a part that has been delivered, or was not.
  void Start(const Delivery& part, const std::exception_ptr& error) {
    if (error != nullptr) return end_.EndOne(error);
    Event copied;
    try {
      copied = EnqueueCopyToGpu(FramesOf(part), to_);
    } catch (...) {
      return end_.EndOne(std::current_exception());
    }
    copied.OnDone(
        [self = shared_from_this()](const std::exception_ptr& failure) { self->end_.EndOne(failure); });
  }

 private:
  PlacedFrames FramesOf(const Delivery& part) const {
    const PlacedFrames leased = part.leased == nullptr ? PlacedFrames() : *part.leased;
    size_t bytes = 0;
    for (const PlacedFrame& placed : leased) bytes += placed.frame.size();
    PlacedFrames frames;
    if (bytes < part.range.bytes) {
      const auto [offset, length] = part.range;
      frames.push_back({offset, bytes_.Slice(offset, length)});
    }
    frames.insert(frames.end(), leased.begin(), leased.end());
    return frames;
  }

  const NDArray from_;
  const Frame bytes_;  // where they are now: a later pull may let the array adopt others
  NDArray to_;
  JointEnd end_;
};

}  // namespace

void ScatterToGpuOnceDelivered(const NDArray& block, const std::vector<BlockPart>& to,
                               const std::vector<Event>& delivered,
                               const std::shared_ptr<Allocator>& records) {
  std::make_shared<Scatter>(block, to, records)->Start(delivered);
}

Deliveries DeliveryOf(const NDArray& array, const Event& delivered) {
  return {{{0, static_cast<size_t>(array.size()) * SizeOf(array.dtype())}, delivered}};
}

void CopyToGpuOnceDelivered(const NDArray& from, const NDArray& to, const Deliveries& deliveries,
                            const Events& uses, const std::shared_ptr<Allocator>& records) {
  const auto copy = std::make_shared<Copy>(from, to, deliveries.size(), records);
  copy->RecordUses();
  for (const Delivery& delivery : deliveries) {
    Events first = uses;
    first.push_back(delivery.delivered);
    WhenAll(
        first, [copy, delivery](const std::exception_ptr& error) { copy->Start(delivery, error); }, records);
  }
}

}  // namespace sluice::kvstore

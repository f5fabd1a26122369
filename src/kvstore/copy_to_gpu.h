// Copies of values that are still to be delivered.
#pragma once

#include <memory>
#include <vector>

#include "sluice/ndarray.h"
#include "tensor/access.h"
#include "tensor/stream.h"

namespace sluice::kvstore {

// A part of an array's bytes, and the event after which they are there. Some may lie in leased memory then
// and not in the array.
struct Delivery {
  ByteRange range;
  Event delivered;
  std::shared_ptr<const PlacedFrames> leased = nullptr;
};
using Deliveries = std::vector<Delivery>;
// Returns the delivery of all bytes of `array`.
Deliveries DeliveryOf(const NDArray& array, const Event& delivered);

// Copies `from`, on the host, to `to`, on a GPU, each part once it has been delivered and `uses` of `to` are
// over. No stream of a device waits for either: what else it does must not wait for other workers. The record
// until then is allocated from `records`. The first error of a delivery is the error of `to`.
void CopyToGpuOnceDelivered(const NDArray& from, const NDArray& to, const Deliveries& deliveries,
                            const Events& uses, const std::shared_ptr<Allocator>& records = HeapAllocator());

// The same for arrays on one GPU whose values are delivered to parts of `block`, bytes on the host. Those
// that are there at the same time are copied together. `to` is in the order of the places in the block;
// `delivered` has an event for each, whose error is the error of that array alone.
void ScatterToGpuOnceDelivered(const NDArray& block, const std::vector<BlockPart>& to,
                               const std::vector<Event>& delivered,
                               const std::shared_ptr<Allocator>& records = HeapAllocator());

}  // namespace sluice::kvstore

// Copies of values that are still to be delivered.
#pragma once

#include <memory>

#include "sluice/ndarray.h"
#include "tensor/stream.h"

namespace sluice::kvstore {

// Copies `from`, on the host, to `to`, on a GPU, once `delivered` has happened and nothing uses `to` any
// more. No stream of a device waits for either: what else it does must not wait for other workers. The record
// until then is allocated from `records`. An error of `delivered` is the error of `to`.
void CopyToGpuOnceDelivered(const NDArray& from, const NDArray& to, const Event& delivered,
                            const std::shared_ptr<Allocator>& records = HeapAllocator());

}  // namespace sluice::kvstore

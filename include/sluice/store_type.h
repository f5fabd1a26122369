// The types of stores and the names they go by (sluice/kvstore.h, docs/kvstore.md).
#pragma once

#include <string>
#include <string_view>

#include "sluice/error.h"

namespace sluice {

struct StoreType {
  bool distributed = false;  // a job's: several workers, and servers that update
  bool async = false;        // every push is applied when it arrives; there are no rounds
  bool on_devices = false;   // gradients of one process are summed on the devices, else in host memory

  // Takes in upper or lower case: local, device, dist_sync, dist_device_sync, dist_async, dist_device_async;
  // and MXNet's other names of the same: local_update_cpu and local_allreduce_cpu (local),
  // local_allreduce_device (device), dist (dist_sync), dist_device and dist_sync_device (dist_device_sync),
  // dist_async_device (dist_device_async). Throws Error(kInvalidArgument) that lists the types and names the
  // nearest.
  static StoreType Parse(std::string_view name);
  std::string Name() const;  // the first of its names: "dist_sync"
  bool operator==(const StoreType&) const = default;
};

}  // namespace sluice

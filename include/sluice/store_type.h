// The types of stores and their names (sluice/kvstore.h, docs/kvstore.md).
#pragma once

#include <string>
#include <string_view>

#include "sluice/error.h"

namespace sluice {

struct StoreType {
  bool distributed = false;  // the store belongs to a job of several workers, and its servers update
  bool async = false;        // every push is applied when it arrives; there are no rounds
  bool on_devices = false;   // the gradients of one process are summed on devices, not in host memory
  bool nccl = false;         // they are summed on GPUs by NCCL

  // Accepts these names, in upper or lower case: local, device, nccl, dist_sync, dist_device_sync,
  // dist_async, dist_device_async. It also accepts MXNet's other names of these types: local_update_cpu and
  // local_allreduce_cpu (local), local_allreduce_device (device), dist (dist_sync), dist_device and
  // dist_sync_device (dist_device_sync), dist_async_device (dist_device_async). For any other name Parse
  // throws Error(kInvalidArgument), which lists the types and suggests the nearest.
  static StoreType Parse(std::string_view name);
  std::string Name() const;  // the name that is not an alias, for example "dist_sync"
  bool operator==(const StoreType&) const = default;
};

}  // namespace sluice

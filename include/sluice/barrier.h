// The groups of nodes that may wait for each other in a barrier.
#pragma once

#include <cstdint>

namespace sluice {

enum class BarrierGroup : uint8_t {
  kWorkers,  // all workers
  kServers,  // the programs of all servers (sluice/server.h)
  kAll,      // all workers and the programs of all servers
};

}  // namespace sluice

// Who waits for whom in a barrier.
#pragma once

#include <cstdint>

namespace sluice {

enum class BarrierGroup : uint8_t {
  kWorkers,  // all workers
  kServers,  // all servers: called by server programs (sluice/server.h)
  kAll,      // all workers and all servers
};

}  // namespace sluice

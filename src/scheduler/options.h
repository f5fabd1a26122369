// What a scheduler is told about its job.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/clock.h"
#include "kvstore/plan/placement.h"
#include "wire/messages.h"

namespace sluice::scheduler {

struct Options {
  uint64_t job = 0;
  uint64_t incarnation = 0;
  uint32_t num_workers = 1;
  uint32_t num_servers = 1;
  // SLUICE_SERVER_THREADS of the scheduler; empty when it is not set, and the servers decide (Roster).
  std::optional<uint32_t> shards_per_server = 1;
  std::optional<int64_t> bigarray_bound;  // plan::PlacementOptions
  int64_t part_bytes = plan::PlacementOptions{}.part_bytes;
  Duration heartbeat_timeout = 10s;
  Duration report_interval = 10s;  // between reports of the missing nodes
  Duration repeat_interval = 1s;   // for AnnounceKeys, SetOptimizer and Stop, until acknowledged
  Duration rendezvous_timeout = std::chrono::minutes(10);
  std::function<wire::Counters()> process_counters;  // added to the scheduler's own counters in Stats
  std::function<void(const wire::NodeInfo&)> on_joined;
  std::function<void()> on_complete;  // called when all nodes have joined, before any of them is notified
  // Called every report_interval while nodes are missing. It returns true when its
  // receiver reports the missing nodes itself; the scheduler then does not log them.
  std::function<bool()> on_waiting;
  // How long the scheduler waits, once the job has finished or failed, for all members to
  // receive the Stop and leave. failure_timeout is shorter than the time that launchers
  // leave between SIGTERM and SIGKILL, because a member that died unnoticed never answers.
  Duration finish_timeout = 5s, failure_timeout = 2s;
};

inline plan::PlacementOptions PlacementOf(const Options& options, uint32_t shards_per_server) {
  return {.num_shards = options.num_servers * shards_per_server,
          .bigarray_bound = options.bigarray_bound,
          .part_bytes = options.part_bytes};
}

}  // namespace sluice::scheduler

// What a pending request waits for, and whether that can still come. Plain functions of what the shard knows;
// only TakeUnsatisfiable changes anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/job_workers.h"
#include "server/keys/shard_keys.h"

namespace sluice::server {

// Whether the part has what the request asks for.
bool IsReady(const ShardKey& key, const ShardPart& part, const PendingRequest& request);
// Async modes: whether answers that show an earlier state of the key are still to be sent to the request's
// worker, so that the request waits for these first.
bool WaitsForPinned(const ShardKey& key, const ShardPart& part, const PendingRequest& request);

// Names what the part's next version waits for: "worker 1, worker 2".
std::string MissingText(const ShardKeys& keys, const JobWorkers& workers, const ShardKey& key,
                        const ShardPart& part);
// Names what the request waits for.
std::string MissingText(const ShardKeys& keys, const JobWorkers& workers, const ShardKey& key,
                        const ShardPart& part, const PendingRequest& request);

// A request that was pending and can never be answered.
struct UnsatisfiableRequest {
  transport::PeerId peer;
  uint64_t request_id;
  std::string why;
};
// Removes the requests that can never be answered from the key's parts, and returns them in the order of the
// parts. Nothing can have become unsatisfiable, and nothing is searched, unless some request awaits a set
// (ShardKey::awaits_set, which this brings up to date) or worker 0 has left.
std::vector<UnsatisfiableRequest> TakeUnsatisfiable(const JobWorkers& workers, ShardKey& key);

}  // namespace sluice::server

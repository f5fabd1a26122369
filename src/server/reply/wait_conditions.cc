// When a pending request is ready, whom it waits for until then, and why it may wait in vain: the rules of
// sync and async modes, of sets by worker 0, and of a key that is not initialised yet.
//
// The functions keep nothing between calls. Responder, StatusUpdates and Shard call them on the shard's loop.
#include "server/reply/wait_conditions.h"

#include <set>
#include <utility>

#include "base/strings.h"

namespace sluice::server {
namespace {

// Why the request can never be answered; empty while it can. A worker that has set the weight before a round
// (sync modes) waits in vain once worker 0 has pushed that round without setting it: its own value would be
// lost silently. The round itself may still close, since its result does not depend on the set.
std::string UnsatisfiableReason(const JobWorkers& workers, const ShardKey& key, const ShardPart& part,
                                const PendingRequest& request) {
  const auto name = [&] { return wire::ToString(key.entry.spec); };
  if (workers.worker_0_left() && !part.initialised)
    return StrCat("worker 0 has left the job and has not initialised key ", name(), ": nobody else does");
  if (!request.awaits_set) return {};
  const bool pushed = !key.async() && !part.rounds.empty() && part.rounds.front().Has(0);
  if (!workers.worker_0_left() && !(pushed && request.min_version == part.version)) return {};
  const std::string set = StrCat("worker ", request.rank, " has set the weight of key ", name());
  if (workers.worker_0_left())
    return StrCat(
        set,
        ", and worker 0, whose weights count, has left the job without: set it on worker 0 or on all "
        "workers, before worker 0 leaves");
  return StrCat(set, " before round ", part.version + 1,
                ", and worker 0, whose weights count, has not: set it on worker 0 or on all workers, between "
                "the same two steps");
}

}  // namespace

bool IsReady(const ShardKey& key, const ShardPart& part, const PendingRequest& request) {
  if (request.awaits_set)
    return key.async() ? part.sets >= request.min_version
                       : part.version > request.min_version || part.set_version == request.min_version;
  if (!key.async()) return part.initialised && part.version >= request.min_version;
  return key.initialised_parts == key.parts.size() && !WaitsForPinned(key, part, request) &&
         key.VersionFor(part, request.rank) >= request.min_version;
}

bool WaitsForPinned(const ShardKey& key, const ShardPart& part, const PendingRequest& request) {
  if (key.pinned.empty() || request.slot > 0 || !request.want_data) return false;
  const auto it = key.pinned.find(request.rank);
  const auto state = it == key.pinned.end() ? nullptr : it->second.lock();
  return state != nullptr && *state != part.version;
}

std::string MissingText(const ShardKeys& keys, const JobWorkers& workers, const ShardKey& key,
                        const ShardPart& part, const PendingRequest& request) {
  return request.awaits_set ? "worker 0 to set it as well (set a weight on worker 0 or on all workers)"
                            : MissingText(keys, workers, key, part);
}

std::string MissingText(const ShardKeys& keys, const JobWorkers& workers, const ShardKey& key,
                        const ShardPart& part) {
  if (!part.initialised) return "worker 0 to initialise the key";
  if (key.async()) return "this worker's own push";
  const std::set<uint32_t>& live = workers.live();
  std::set<uint32_t> missing;
  for (const ShardPart& one : keys.PartsClosingWith(key, part)) {
    const auto of_part = one.rounds.empty() ? std::vector<uint32_t>(live.begin(), live.end())
                                            : one.rounds.front().Missing(live);
    missing.insert(of_part.begin(), of_part.end());
  }
  std::vector<std::string> names;
  for (const uint32_t rank : missing) names.push_back(StrCat("worker ", rank));
  return StrJoin(names);
}

std::vector<UnsatisfiableRequest> TakeUnsatisfiable(const JobWorkers& workers, ShardKey& key) {
  std::vector<UnsatisfiableRequest> taken;
  if (!std::exchange(key.awaits_set, false) && !workers.worker_0_left()) return taken;
  for (ShardPart& part : key.parts) {
    std::erase_if(part.pending, [&](const PendingRequest& request) {
      std::string why = UnsatisfiableReason(workers, key, part, request);
      key.awaits_set |= request.awaits_set && why.empty();
      if (why.empty()) return false;
      taken.push_back({request.peer, request.request_id, std::move(why)});
      return true;
    });
  }
  return taken;
}

}  // namespace sluice::server

#include "server/reply/status_updates.h"

#include <algorithm>
#include <set>
#include <utility>

#include "server/reply/wait_conditions.h"

namespace sluice::server {
namespace {

// A request gets its first status message after kFirstStatus, which is longer than a training round usually
// takes; the pauses after that double, up to kLongestPause.
constexpr Duration kFirstStatus = 100ms;
constexpr Duration kLongestPause = 2s;

}  // namespace

void StatusUpdates::Schedule(Time now, PendingRequest* request) {
  request->next_status_at = now + kFirstStatus;
  request->pause = kFirstStatus;
  next_ = std::min(next_, request->next_status_at);
}

void StatusUpdates::SendDue(Time now, transport::Network& network) {
  if (now < NextTimer()) return;
  next_ = Time::max();
  const auto keys = keys_.all();
  size_t sent = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (sent >= kMostOfAPass) {
      first_ = (first_ + i) % keys.size();
      next_ = now;
      break;
    }
    sent += SendDue(now, *keys[(first_ + i) % keys.size()], network);
  }
  // A key for which many wait may have taken more than one pass's messages.
  const size_t passes = std::max<size_t>(1, (sent + kMostOfAPass - 1) / kMostOfAPass);
  next_pass_ = now + kFirstStatus * static_cast<int64_t>(passes);
}

size_t StatusUpdates::SendDue(Time now, ShardKey& key, transport::Network& network) {
  // The requests that have had their status message: one message is for all parts of the key.
  std::set<std::pair<transport::PeerId, uint64_t>> told;
  for (ShardPart& part : key.parts) {
    for (PendingRequest& request : part.pending) {
      if (now >= request.next_status_at) {
        request.pause = std::min(2 * request.pause, kLongestPause);
        request.next_status_at = now + request.pause;
        const bool for_itself = request.rank == 0 && !part.initialised;  // its own first values are in flight
        const bool for_others = !request.deferred && !for_itself && !WaitsForPinned(key, part, request);
        if (for_others && told.emplace(request.peer, request.request_id).second) {
          ++counters_[Counter::kStatusUpdates];
          sender_.Send(request.peer, request.request_id,
                       wire::StillWaiting{wire::ToString(key.entry.spec),
                                          MissingText(keys_, workers_, key, part, request)},
                       {}, network);
        }
      }
      next_ = std::min(next_, request.next_status_at);
    }
  }
  return told.size();
}

}  // namespace sluice::server

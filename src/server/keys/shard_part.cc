#include "server/keys/shard_part.h"

#include <utility>

namespace sluice::server {

bool ShardPart::AcceptIfNewer(uint32_t slot, StoreRequest by) {
  StoreRequest& last = stored_by[slot];
  if (last.incarnation == by.incarnation && by.id <= last.id) return false;
  last = by;
  return true;
}

PendingRequest* ShardPart::FindEquivalent(const PendingRequest& request) {
  for (PendingRequest& known : pending) {
    if (!known.AsksFor(request) || known.pinned.has_value() != request.pinned.has_value()) continue;
    if (rows != nullptr && request.want_data && known.request_id != request.request_id)
      continue;  // other rows
    return &known;
  }
  return nullptr;
}

void ShardPart::AddPending(PendingRequest request) {
  PendingRequest* const known = FindEquivalent(request);
  if (known == nullptr) {
    pending.push_back(std::move(request));
    return;
  }
  if (known->request_id == request.request_id) {
    request.next_status_at = known->next_status_at;
    request.pause = known->pause;
  }
  *known = std::move(request);
}

}  // namespace sluice::server

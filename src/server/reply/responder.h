// Answers requests for values: at once, or when the version is there and the connection has room for it.
//
// A request that is not answered at once waits in its part's list (ShardPart::pending). It is ready or not
// (wait_conditions.h). One that is ready while its peer has no room is deferred: its answer is made, from the
// values of that time, once the peer has room. So a deferred answer takes no memory for its value (but see
// PendingRequest::pinned).
//
// Answers collect here until Flush. Thread safety: one thread, that of the shard's loop.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "base/buffer.h"
#include "server/keys/shard_keys.h"
#include "server/reply/reply_batcher.h"
#include "server/reply/reply_sender.h"
#include "server/reply/status_updates.h"
#include "server/shard_counters.h"
#include "server/update/update_queue.h"

namespace sluice::server {

class Responder {
 public:
  // All arguments must outlive this object. `memory`: for values that an answer carries as a copy.
  Responder(const ShardKeys& keys, UpdateQueue& updates, const ReplySender& sender,
            StatusUpdates& status_updates, ShardCounters& counters, std::shared_ptr<Allocator> memory);

  // Answers at once when the request is ready and its peer has room, and returns true. Otherwise keeps the
  // request among those that wait on the part, where a repeat replaces the one before, and returns false.
  bool AnswerOrWait(Time now, ShardKey& key, ShardPart& part, PendingRequest request);
  // Answers, or defers, the requests that wait on the part and have become ready. It is to be called whenever
  // something changes that a request may wait for: the part's version, its first value, a set by worker 0.
  void AnswerReady(ShardKey& key, ShardPart& part);
  // `peer` has room again, or is gone. The deferred answers for it leave with the next Flush.
  void OnRoom(transport::PeerId peer) { without_room_.erase(peer); }
  // Runs the updates that wait, so that no answer carries a weight that is not written yet, and sends all
  // answers: those that have collected, and the deferred ones whose peers have room.
  void Flush(transport::Network& network);

 private:
  bool HasRoom(const PendingRequest& request) const;
  void Defer(ShardKey& key, ShardPart& part, PendingRequest& request);
  // Makes some of the deferred answers whose peers have room now. False: there are none.
  bool AnswerSomeDeferred();
  void AnswerDeferred(transport::PeerId peer, const wire::PartRef& ref);
  void Answer(const ShardKey& key, ShardPart& part, const PendingRequest& request);

  const ShardKeys& keys_;
  UpdateQueue& updates_;
  const ReplySender& sender_;
  StatusUpdates& status_updates_;
  ShardCounters& counters_;
  const std::shared_ptr<Allocator> memory_;

  ReplyBatcher replies_;
  std::set<transport::PeerId> without_room_;
  // For each peer the parts whose values it gets once it has room. Every deferred request waits on one of
  // these parts.
  struct BeforePart {
    bool operator()(const wire::PartRef& a, const wire::PartRef& b) const {
      return std::pair(a.key, a.part) < std::pair(b.key, b.part);
    }
  };
  std::map<transport::PeerId, std::set<wire::PartRef, BeforePart>> deferred_;
};

}  // namespace sluice::server

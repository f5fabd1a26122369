// Tells the workers that wait for a part, by the clock, which workers they wait for (wire::StillWaiting).
//
// Thread safety: one thread, that of the shard's loop.
#pragma once

#include <algorithm>

#include "server/job_workers.h"
#include "server/keys/shard_keys.h"
#include "server/reply/reply_sender.h"
#include "server/shard_counters.h"

namespace sluice::server {

class StatusUpdates {
 public:
  // All arguments must outlive this object.
  StatusUpdates(const ShardKeys& keys, const JobWorkers& workers, const ReplySender& sender,
                ShardCounters& counters)
      : keys_(keys), workers_(workers), sender_(sender), counters_(counters) {}

  // Sets the time of the first status message for a request that begins to wait now.
  void Schedule(Time now, PendingRequest* request);
  // Sends a status message for each pending request whose time has come, and sets the time of its next one.
  // Ends after the key with which kMostOfAPass are sent; the next call goes on with the next key.
  void SendDue(Time now, transport::Network& network);
  // When SendDue is to be called next; Time::max(): no request waits.
  Time NextTimer() const { return std::max(next_, next_pass_); }

  // Messages in 0.1 s; after a key for which more workers wait, the pause is longer. They only tell whom to
  // wait for, and must leave the shard and its workers time for gradients, however many requests wait.
  static constexpr size_t kMostOfAPass = 256;

 private:
  // Returns how many it has sent.
  size_t SendDue(Time now, ShardKey& key, transport::Network& network);

  const ShardKeys& keys_;
  const JobWorkers& workers_;
  const ReplySender& sender_;
  ShardCounters& counters_;
  Time next_pass_{};         // not before that
  size_t first_ = 0;         // where the next pass begins, in keys_.all()
  Time next_ = Time::max();  // at or before the earliest PendingRequest::next_status_at
};

}  // namespace sluice::server

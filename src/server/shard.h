// A server's shard: one thread with one socket, and the parts of keys that it owns. A gradient passes through
// four steps, each of which has a folder:
//   receive/    checks a message against the keys; writes what a worker stores
//   aggregate/  keeps the frames as they came, by round and worker; drops repeated pushes
//   update/     closes a round in one pass, once all live workers have pushed it
//   reply/      answers the requests that wait for the new version, without copying the weight
// The steps work on what keys/ holds. What a step has to remember between messages is in its classes:
// Aggregator; RoundCloser and UpdateQueue; Responder and StatusUpdates. Shard takes a message from one to the
// next. No folder includes a file of one further down this list; keys/ comes before all of them.
//
// Shard is a deterministic machine; docs/design/protocol.md describes what it answers. The control machine
// calls the methods under "From the control machine" between two messages (Loop::Post).
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/non_temporal_copy.h"
#include "server/aggregate/aggregator.h"
#include "server/job_workers.h"
#include "server/keys/shard_keys.h"
#include "server/reply/reply_sender.h"
#include "server/reply/responder.h"
#include "server/reply/status_updates.h"
#include "server/shard_counters.h"
#include "server/update/round_closer.h"
#include "server/update/update_queue.h"

namespace sluice::server {

struct ShardOptions {
  uint64_t job = 0;
  uint64_t incarnation = 0;
  uint32_t thread = 0;  // this shard's number among the shards of its server
  uint32_t shards_per_server = 1;
  ServerUpdater updater;
  std::shared_ptr<Allocator> memory = HeapAllocator();  // for weights and for the payload of answers
  size_t cache_bytes = kCacheBytes;  // with more bytes of weights than this, updates use non-temporal stores
  UpdateQueue::Helpers helpers;      // share large updates; empty: this shard's thread does all
  std::function<wire::Counters()> process_counters;  // added to the shard's own counters in Stats; null: none
  bool deduplicate = true;  // false only in tests, which must detect the double count that follows
};

class Shard final : public transport::StateMachine {
 public:
  explicit Shard(ShardOptions options);

  void OnStart(Time, transport::Network&) override {}
  void OnMessage(Time now, transport::PeerId from, wire::Message message,
                 transport::Network& network) override;
  void OnBurstEnd(Time, transport::Network& network) override { responder_.Flush(network); }
  void OnRoom(Time now, transport::PeerId peer, transport::Network& network) override;
  void OnTimer(Time now, transport::Network& network) override;
  void OnEnd(Time, const std::string&, transport::Network&) override { update_queue_.Run(); }
  Time NextTimer() const override { return std::min(status_updates_.NextTimer(), aggregator_.NextTimer()); }
  bool Done() const override { return done_; }
  Duration Linger() const override { return linger_; }
  std::string DumpState(Time now) const override;

  // --- From the control machine ---
  // As ShardKeys::Add and ShardKeys::SetOptimizer.
  Status AddKeys(const std::vector<wire::KeyEntry>& entries) { return keys_.Add(entries); }
  Status SetOptimizer(const OptimizerConfig& config, const std::map<uint32_t, uint64_t>& first_rounds,
                      uint32_t store = 0) {
    return keys_.SetOptimizer(config, first_rounds, store);
  }
  // Sets this server's rank and the workers that are alive. Closes rounds that waited only for workers that
  // no longer live, and refuses waiting requests that can no longer be answered.
  void SetMembership(uint32_t rank, uint64_t epoch, const std::vector<wire::NodeInfo>& roster,
                     transport::Network& network);
  // Ends the loop, which waits up to `linger` for queued messages to leave.
  void End(Duration linger) {
    done_ = true;
    linger_ = linger;
  }

  wire::Counters counters() const { return counters_.ByName(); }

 private:
  // The worker that has sent the message in hand, and the message's number.
  struct Requester {
    uint32_t rank;
    transport::PeerId peer;
    uint64_t request_id;
  };

  void Dispatch(Time now, const Requester& from, wire::Message& message, transport::Network& network);
  void OnPush(Time now, const Requester& from, wire::Message& message, transport::Network& network);
  void OnPull(Time now, const Requester& from, const wire::Message& message, transport::Network& network);
  void OnPullRows(Time now, const Requester& from, const wire::Message& message, transport::Network& network);
  void OnGetRowIds(const Requester& from, const wire::Message& message, transport::Network& network);
  void OnStore(const Requester& from, wire::Message& message, transport::Network& network);
  void OnGetStats(const Requester& from, transport::Network& network);

  // Keeps the worker's push of the part, and closes what it completes.
  Result<Admission> Admit(uint32_t rank, ShardKey& key, ShardPart& part, uint64_t round,
                          Contribution&& contribution);
  void CloseRounds(ShardKey& key, ShardPart& part);
  // Refuses the key's pending requests that can no longer be answered.
  void FailUnsatisfiable(ShardKey& key, transport::Network& network);
  // Answers with an error, and counts the request as rejected.
  void Reject(const Requester& from, const Failure& failure, transport::Network& network);

  const ShardOptions options_;
  ShardCounters counters_;
  JobWorkers workers_;
  ShardKeys keys_;
  UpdateQueue update_queue_;  // empty when the loop is idle
  Aggregator aggregator_;
  RoundCloser round_closer_;
  ReplySender reply_sender_;
  StatusUpdates status_updates_;
  Responder responder_;
  LogLimiter limiter_{5, 10s};
  bool done_ = false;
  Duration linger_ = Duration::max();
};

}  // namespace sluice::server

// The worker's client: moves plain arrays to and from the servers. It is a deterministic machine that passes
// calls, messages and timers to the classes that do the work:
//   connection/  what waits to be sent to each shard, what is sent, what is not answered
//   operations/  the keys, and the operations on them from their start to their end
//   session/     joining and leaving the job, requests that concern no key, declaring keys
// docs/design/protocol.md describes what it sends, gradient_stages.h the stages of a gradient.
//
// Thread safety: all methods are called on the client's loop (Loop::Post), and all callbacks run there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/non_temporal_copy.h"
#include "worker/operations/keyed_operations.h"
#include "worker/operations/shard_answers.h"
#include "worker/session/job_session.h"
#include "worker/session/key_initializer.h"

namespace sluice::worker {

struct ClientOptions {
  membership::Options membership;
  Duration resend_timeout = 5s;
  // The most bytes per shard of pushes that the shard has not acknowledged, and as many of pulls that it has
  // not answered. The two are counted apart, so that a value that waits for other workers' pushes never
  // keeps a push from leaving: two workers would wait for each other.
  uint64_t max_inflight_bytes = 64u << 20;
  size_t cache_bytes = kCacheBytes;  // with more bytes of weights, non-temporal copies deliver values
  Tracer* tracer = nullptr;          // must outlive the client; null: none
  // Called once, on the loop, when the scheduler reports that the job has failed; may be null.
  std::function<void(const std::string& why)> on_job_failed = nullptr;
  // Takes the lines that report for what this worker has waited, for how long and in which
  // operations; null: they go to the log.
  std::function<void(const std::string& line)> on_waiting = nullptr;
};

class Client final : public transport::StateMachine {
 public:
  using NetworkRef = transport::Network&;
  using InitDone = KeyInitializer::InitDone;

  explicit Client(ClientOptions options);

  void OnStart(Time now, NetworkRef network) override;
  void OnMessage(Time now, transport::PeerId from, wire::Message message, NetworkRef network) override;
  void OnRefused(Time now, transport::PeerId peer, NetworkRef network) override;
  void OnTimer(Time now, NetworkRef network) override;
  Time NextTimer() const override;
  bool Done() const override { return session_.has_left(); }
  void OnEnd(Time now, const std::string& why, NetworkRef network) override;
  std::string DumpState(Time now) const override;

  // Membership, the end of the job, leaving it.
  JobSession& session() { return session_; }
  const JobSession& session() const { return session_; }
  // The optimiser, barriers, counters, lists of rows.
  ControlPlaneRequests& requests() { return requests_; }
  // The keys that this worker has declared.
  const DeclaredKeys& keys() const { return keys_; }
  uint32_t num_shards() const { return connections_.size(); }
  // Bytes copied to destinations, and into small-key batches.
  uint64_t bytes_copied() const { return open_.bytes_copied(); }

  // Starts an operation on keys. Its callback runs once, when it has ended or cannot be carried out.
  void Submit(Time now, std::shared_ptr<Operation> op, NetworkRef network) {
    operations_.Submit(now, std::move(op), network);
    completions_.Run(now, network);
  }
  // Ends what waits for the last round of the key that this worker has begun to push, and fails later pushes,
  // since the rest of that push has failed.
  void FailLastRound(Time now, uint32_t key, const Failure& failure, NetworkRef network);
  // Runs `calls`, and sends what they have started at their end, in as few messages as possible.
  void RunAsBatch(Time now, NetworkRef network, FunctionRef<void()> calls) {
    operations_.RunAsBatch(now, network, calls);
  }
  // Declares the keys; worker 0 also stores their first values. Done when the servers have these. Fails with
  // kDeadlineExceeded, and a message that names what it waits for, when that is later than `deadline`.
  void Init(Time now, wire::SyncMode mode, std::vector<InitArgs> keys, Time deadline, InitDone done,
            NetworkRef network) {
    initializer_.Init(now, mode, std::move(keys), deadline, std::move(done), network);
  }

 private:
  void OnShardMessage(Time now, uint32_t shard, const wire::Message& message, NetworkRef network);

  const ClientOptions options_;
  NoTracer no_tracer_;
  Tracer& tracer_;
  const std::shared_ptr<Allocator> records_ = std::make_shared<PoolAllocator>(kKeptRecords);
  membership::MembershipClient membership_;
  MessageFactory messages_;
  CompletionQueue completions_;
  WaitReporter waits_;
  DeclaredKeys keys_;
  ConnectionTable connections_;
  OpenOperations open_;
  KeyedOperations operations_;
  ShardAnswers answers_;
  ControlPlaneRequests requests_;
  KeyInitializer initializer_;
  JobSession session_;
};

}  // namespace sluice::worker

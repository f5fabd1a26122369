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
#include "worker/session/key_declarations.h"

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

struct PushArgs {
  uint32_t key = 0;
  GradientCompression compression;
  Frame source;  // the gradient, or its parts one behind the other as compression::Encode writes them
  int priority = 0;
  uint32_t exponent = 0;  // multiplies an uncompressed source by 2^exponent (wire::Push)
  uint64_t samples = 0;
  double divisor = 1;
};
struct PullArgs {
  uint32_t key = 0;
  Destination destination;
  int priority = 0;
  uint32_t slot = 0;    // 0: the weight; i: the optimiser's i-th state
  bool latest = false;  // pull any version; false: wait for this worker's last push
  // Encoding of float32 weights, once this worker has pushed the key; before that they come unencoded.
  Compression weights = Compression::kNone;
};
// One operation on several small keys, sent in few messages. It ends when it has ended for all keys, and
// fails when it fails for one of them; the others go on. PerKeyOp::callback reports the end of each key.
struct SmallKeyBatchArgs {
  OpKind kind = OpKind::kPush;  // or kPushPull, kPull
  // Keys of one part each, no key twice. The client fills in the rounds.
  PerKeyOps keys{MemoryOf<PerKeyOp>(HeapAllocator())};
  Frame source;  // pushes: the uncompressed gradients, one behind the other
  int priority = 0;
  uint64_t samples = 0;
  double divisor = 1;
  bool latest = false;  // pulls: as in PullArgs
};
// Arguments for row-sparse keys.
struct PushRowsArgs {
  uint32_t key = 0;
  Frame source;
  std::shared_ptr<const RowByteRanges> byte_ranges;
  int priority = 0;
  uint64_t samples = 0;
  double divisor = 1;
  uint32_t exponent = 0;
};
struct PullRowsArgs {
  uint32_t key = 0;
  Frame ids;
  Destination destination;
  std::shared_ptr<const RowByteRanges> byte_ranges;
  int priority = 0;
  uint32_t slot = 0;  // 0: the weight after this worker's last push; i: any version of the i-th state
};
// Sets the weight of a dense key, outside any round.
struct SetArgs {
  uint32_t key = 0;
  Frame source;  // the value on worker 0; empty on other workers
};
// Stores weights of a row-sparse key (slot 0), or one of its states and its number of updates.
struct StoreRowsArgs {
  uint32_t key = 0;
  uint32_t slot = 0;
  uint64_t num_updates = 0;
  Frame source;  // kvstore/rows/row_frame.h
  std::shared_ptr<const RowByteRanges> byte_ranges;
};

class Client final : public transport::Machine {
 public:
  using NetworkRef = transport::Network&;
  using InitDone = KeyDeclarations::InitDone;
  using UpdatesDone = std::function<void(const Result<uint64_t>&)>;

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
  JobRequests& requests() { return requests_; }
  // The keys that this worker has declared.
  const DeclaredKeys& keys() const { return keys_; }
  uint32_t num_shards() const { return connections_.size(); }
  // Bytes copied to destinations, and into small-key batches.
  uint64_t bytes_copied() const { return open_.bytes_copied(); }

  // --- Keys and values (client_calls.cc) ---
  // Every `done` is called exactly once. A call that is not done by `deadline` fails with kDeadlineExceeded
  // and a message that names what it waits for.

  // Runs `calls`, and sends what they have started at their end, in as few messages as possible.
  void RunAsBatch(Time now, NetworkRef network, FunctionRef<void()> calls) {
    operations_.RunAsBatch(now, network, calls);
  }
  // Declares the keys; worker 0 also stores their first values. Done when the servers have these.
  void Init(Time now, wire::SyncMode mode, std::vector<InitArgs> keys, Time deadline, InitDone done,
            NetworkRef network) {
    declarations_.Init(now, mode, std::move(keys), deadline, std::move(done), network);
  }
  // Is done when the servers have acknowledged the push; it has no deadline.
  void Push(Time now, PushArgs args, Callback done, NetworkRef network);
  // Pushes, and delivers the weight after this round to `destination`. A push whose deadline has
  // passed still goes on, as a plain push.
  void PushPull(Time now, PushArgs args, Destination destination, Time deadline, Callback done,
                NetworkRef network);
  void Pull(Time now, PullArgs args, Time deadline, Callback done, NetworkRef network);
  void Batch(Time now, SmallKeyBatchArgs args, Time deadline, Callback done, NetworkRef network);
  // The same for rows of row-sparse keys.
  void PushRows(Time now, PushRowsArgs args, Callback done, NetworkRef network);
  void PullRows(Time now, PullRowsArgs args, Time deadline, Callback done, NetworkRef network);
  void StoreRows(Time now, StoreRowsArgs args, Time deadline, Callback done, NetworkRef network);
  // Sets the weight between two rounds: after all rounds that this worker has pushed, before the next
  // round of any worker. Worker 0's value is set; its call has no deadline and is done when the servers
  // have acknowledged it. On other workers the call waits until worker 0 has set the weight before the
  // same round (async modes: as often as this worker), and fails once that can no longer happen. What was
  // issued later on the key waits as well.
  void Set(Time now, SetArgs args, Time deadline, Callback done, NetworkRef network);
  // Is done when all rounds of the key that this worker has pushed are closed.
  void AwaitRounds(Time now, uint32_t key, Time deadline, Callback done, NetworkRef network);
  // Reads the number of updates that the key's optimiser has made.
  void PullUpdates(Time now, uint32_t key, Time deadline, UpdatesDone done, NetworkRef network);
  // Sets that number and one state, in float32 (float64 for float64 keys). With slot 0 it sets the
  // number alone, and `source` is empty.
  void StoreState(Time now, uint32_t key, uint32_t slot, uint64_t num_updates, Frame source, Time deadline,
                  Callback done, NetworkRef network);

 private:
  std::shared_ptr<Operation> NewPush(OpKind kind, PushArgs args, Callback done) const;
  // Starts the operation and runs completions.
  void Start(Time now, std::shared_ptr<Operation> op, NetworkRef network);
  void OnShardMessage(Time now, uint32_t shard, const wire::Message& message, NetworkRef network);

  const ClientOptions options_;
  NoTracer no_tracer_;
  Tracer& tracer_;
  const std::shared_ptr<Allocator> records_ = std::make_shared<PoolAllocator>(kKeptRecords);
  membership::Client membership_;
  MessageFactory messages_;
  CompletionQueue completions_;
  WaitReporter waits_;
  DeclaredKeys keys_;
  ConnectionTable connections_;
  OpenOperations open_;
  KeyedOperations operations_;
  ShardAnswers answers_;
  JobRequests requests_;
  KeyDeclarations declarations_;
  JobSession session_;
};

}  // namespace sluice::worker

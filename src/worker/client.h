// The worker's client: moves plain arrays to and from the servers. It is a deterministic machine.
// docs/design/protocol.md describes what it sends, gradient_stages.h the stages of a gradient.
//
// Thread safety: all methods are called on the client's loop (Loop::Post), and all callbacks run there.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/log.h"
#include "base/non_temporal_copy.h"
#include "kvstore/membership/control_requests.h"
#include "kvstore/membership/wait_reports.h"
#include "kvstore/plan/placement.h"
#include "transport/shm/contiguous_view.h"
#include "worker/gradient_stages.h"
#include "worker/part_sequencer.h"
#include "worker/push/congestion_window.h"
#include "worker/push/outstanding_requests.h"
#include "worker/push/send_queue.h"

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

struct InitArgs {
  wire::KeySpec spec;
  Frame value;  // only rank 0's is used; empty for row-sparse keys
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
  // Gets the ids of the keys, in the order of the call.
  using InitDone = std::function<void(const Result<std::vector<uint32_t>>&)>;
  using TextDone = std::function<void(const Result<std::string>& text)>;
  using AnswerDone = membership::ControlRequests::Done;
  using UpdatesDone = std::function<void(const Result<uint64_t>&)>;

  explicit Client(ClientOptions options);
  ~Client() override;

  void OnStart(Time now, NetworkRef network) override;
  void OnMessage(Time now, transport::PeerId from, wire::Message message, NetworkRef network) override;
  void OnRefused(Time now, transport::PeerId peer, NetworkRef network) override;
  void OnTimer(Time now, NetworkRef network) override;
  Time NextTimer() const override;
  bool Done() const override { return done_; }
  void OnEnd(Time now, const std::string& why, NetworkRef network) override;
  std::string DumpState(Time now) const override;

  // --- Membership ---
  // Calls `done` when the job is complete, or with an error when it ends before.
  void WhenJoined(worker::Done done);
  uint32_t rank() const { return membership_.rank(); }
  size_t NumDead() const { return membership_.NumDead(); }
  // Reports to the other workers that this one was asked to end (membership::Options::on_asked_to_end).
  void AskToEnd(NetworkRef network) { membership_.AskToEnd(network); }
  // Why all calls fail from now on; empty while they do not.
  const std::optional<Failure>& failure() const { return failure_; }

  // --- Keys and values (client_calls.cc) ---
  // Every `done` is called exactly once. A call that is not done by `deadline` fails with kDeadlineExceeded
  // and a message that names what it waits for.

  // Runs `calls`, and sends what they have started at their end, in as few messages as possible.
  void RunAsBatch(Time now, NetworkRef network, FunctionRef<void()> calls);
  // Declares the keys; worker 0 also stores their first values. Done when the servers have these.
  void Init(Time now, wire::SyncMode mode, std::vector<InitArgs> keys, Time deadline, InitDone done,
            NetworkRef network);
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
  // Lists the rows of a part, in the order in which they were made, from the `first`-th on. The answer is
  // wire::RowIds, which may not hold all of them.
  void GetRowIds(Time now, wire::PartRef part, uint64_t first, Time deadline, AnswerDone done,
                 NetworkRef network);
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

  // --- Control ---
  // Sets the optimiser of the keys of `store` (wire::KeySpec), from each key's next round on. Done when all
  // servers have it. Fails with kPermissionDenied on other workers than worker 0.
  void SetOptimizer(Time now, const OptimizerConfig& config, uint32_t store, Time deadline, worker::Done done,
                    NetworkRef network);
  // Is done when the optimiser that worker 0 has set for `store` is on every server.
  void AwaitOptimizer(Time now, uint32_t store, Time deadline, worker::Done done, NetworkRef network);
  // Is done when all members of the barrier have called it. For a barrier of all nodes (Group::kAll) an
  // empty id is filled in with a count that servers keep as well.
  void Barrier(Time now, wire::Barrier barrier, Time deadline, worker::Done done, NetworkRef network);
  // As Barrier; also returns the text of the member with the lowest rank.
  void Agree(Time now, wire::Barrier barrier, Time deadline, TextDone done, NetworkRef network);
  // Prepares for leaving without an error. Done when the servers have everything that this worker pushed or
  // stored, or with kDeadlineExceeded and the name of what they do not have. Reads in flight end with
  // kCancelled, since the rounds that they wait for may never close.
  void Flush(Time now, Time deadline, worker::Done done, NetworkRef network);
  // Leaves the job. With Outcome::kFinished it first asks every server for its counters, since the death of
  // a server after the last push would go unnoticed. That fails when the job fails meanwhile, or when the
  // scheduler dies before it has acknowledged the leave message. The worker has then not left: call Leave
  // with Outcome::kFailed, which leaves in any case.
  void Leave(Time now, wire::Leave leave, Time deadline, worker::Done done, NetworkRef network);
  // Asks for the counters (wire::Stats) of the scheduler or of a shard.
  void GetSchedulerStats(Time now, Time deadline, AnswerDone done, NetworkRef network);
  void GetShardStats(Time now, uint32_t shard, Time deadline, AnswerDone done, NetworkRef network);

  uint32_t num_shards() const { return static_cast<uint32_t>(shards_.size()); }
  uint64_t bytes_copied() const { return bytes_copied_; }  // to destinations, and into small-key batches
  const wire::KeyEntry& entry(uint32_t key) const { return keys_.at(key)->entry; }
  bool Knows(uint32_t key) const { return Find(key) != nullptr; }

 private:
  struct KeyState {
    wire::KeyEntry entry;
    Label name;
    std::vector<plan::Part> parts;
    std::vector<PartSequencer> sequencers;           // by part
    uint64_t pushed = 0;                             // the last round that this worker has pushed
    uint64_t sets = 0;                               // number of calls of Set
    std::optional<transport::ContiguousView> views;  // joins the adopted values of the key's parts
    // The first round of which a shard has refused this worker's push: it and later rounds never close.
    uint64_t refused_round = UINT64_MAX;
    std::optional<Failure> refusal;
  };
  struct Lane {
    void Clear() {
      queue.Clear();
      in_flight = 0;
    }
    // Whether the window has room. For a part with a higher priority than the last one sent the window
    // counts twice, so that it need not wait for acknowledgements of less urgent parts.
    bool CanSend() const {
      if (queue.empty()) return false;
      return in_flight < (queue.priority() > last_priority ? 2 : 1) * window.bytes();
    }
    SendQueue queue;
    CongestionWindow window;
    uint64_t in_flight = 0;
    int last_priority = INT32_MAX;
  };
  struct Shard {
    transport::PeerId peer;
    uint32_t server = 0;  // the server's rank
    OutstandingRequests requests;
    Lane pushes, pulls;
    Lane& LaneOf(const PartOp& part) { return part.HasPayload() ? pushes : pulls; }
  };

  const KeyState* Find(uint32_t key) const { return key < keys_.size() ? keys_[key].get() : nullptr; }
  KeyState* Find(uint32_t key) { return key < keys_.size() ? keys_[key].get() : nullptr; }
  // Calls use(PartOp&) for each part of the operation that has not finished.
  template <typename Use>
  void ForPartsOf(const Operation& op, Use&& use) const {
    for (const PerKeyOp& key_op : op.keys) {
      const KeyState* key = Find(key_op.key);
      if (key == nullptr) continue;
      for (const PartSequencer& sequencer : key->sequencers) {
        for (const PartOpPtr& part : sequencer.ops())
          if (part->op.get() == &op && !part->finished) use(*part);
      }
    }
  }

  // client.cc
  void AfterMembership(Time now, NetworkRef network);
  void ConnectShards(NetworkRef network);
  void DisconnectShards(NetworkRef network);
  void FailAll(const Failure& failure);
  void Expire(Time now);
  void ReportWaits(Time now);
  void CheckFlushed(Time now);
  // Names what an operation waits for: the last status message of a shard, else
  // the servers that have not answered.
  std::string WaitingFor(const Operation& op) const;
  std::string Describe(const Operation& op) const;  // "push of key w, round 3"
  wire::Message Envelope(wire::Body body, uint64_t id) const { return membership_.Make(std::move(body), id); }

  // client_calls.cc
  std::shared_ptr<Operation> NewOperation(OpKind kind, uint32_t key) const;
  std::shared_ptr<Operation> NewPush(OpKind kind, PushArgs args, Callback done) const;
  uint64_t PushedRound(uint32_t key) const {
    const KeyState* state = Find(key);
    return state == nullptr ? 0 : state->pushed;
  }

  // client_flow.cc: turns operations into messages
  void Start(Time now, std::shared_ptr<Operation> op, NetworkRef network);
  // Why an operation cannot be carried out; nullopt: it can.
  std::optional<Failure> ImpossibleReason(const Operation& op) const;
  std::optional<Failure> ImpossibleReason(const Operation& op, const PerKeyOp& key_op) const;
  // Why the operation does not fit the key, for which it has `source` bytes to send; empty: it fits.
  static std::string MismatchReason(const Operation& op, const PerKeyOp& key_op, const KeyState& key,
                                    size_t source);
  // Bytes of the largest frame of the operation. No part of a key is longer than its first one.
  static size_t LargestFrame(const Operation& op, const KeyState& key);
  // Splits an operation on several keys into one for each key, with its share of the source. `op.done` is
  // called when all have ended, with the first failure among them.
  std::vector<std::shared_ptr<Operation>> SplitPerKey(Operation& op) const;
  // Appends the parts of the operation to the sequencers. The PartOps lie in `part_ops`.
  using PartOpArray = std::shared_ptr<PartOp[]>;
  void AppendParts(Time now, const std::shared_ptr<Operation>& op, const PartOpArray& part_ops);
  void AppendRows(Time now, const std::shared_ptr<Operation>& op, const PartOpArray& part_ops);
  // Bytes that a push of the key, or of one of its parts, sends.
  static size_t PushedBytes(const Operation& op, const KeyState& key);
  static size_t PushedBytes(const Operation& op, const KeyState& key, const plan::Part& part);
  void Open(const std::shared_ptr<Operation>& op);
  void Append(PartOpPtr part, std::shared_ptr<Operation> op, KeyState& key, uint32_t index);
  void AddHorizonProbe(Time now, KeyState& key, uint32_t part, uint64_t round);
  void AddVersionProbe(Time now, KeyState& key, uint32_t part, uint64_t round);
  void Release(PartSequencer& sequencer);
  static Lane* PickLane(Shard& shard);
  void FlushShards(Time now, NetworkRef network);
  void FlushShard(Time now, uint32_t index, NetworkRef network);
  void ReleaseInFlight(PartOp& part);  // takes the part's bytes out of its lane's in_flight
  void SendBatch(uint32_t shard, uint64_t id, const PartOps& batch, NetworkRef network);

  // client_answers.cc: turns answers into completions
  void Acknowledge(Time now, PartOp& part);
  void NoteArrival(Time now, uint32_t shard, OutstandingRequests::Request& request);
  void OnAck(Time now, uint32_t shard, uint64_t id);
  void OnValues(Time now, uint32_t shard, const wire::Message& message);
  void FailFromRound(KeyState& key, uint64_t round, const Failure& failure);
  static bool NeedsRound(const Operation& op, const PerKeyOp& key_op, uint64_t round);
  void OnShardError(Time now, uint32_t shard, uint64_t id, const Failure& failure, NetworkRef network);
  void SplitUnfinished(std::shared_ptr<Operation> op);
  void ResendSeparately(Time now, uint32_t shard, const PartOps& parts, NetworkRef network);
  void OnShardWaiting(uint32_t shard, uint64_t id, const wire::StillWaiting& waiting);
  void Repeat(Time now, uint32_t index, NetworkRef network);
  void Finish(const PartOpPtr& part);
  void DeliverAll(Operation& op);  // delivers op.kept
  // Weights of more bytes than the caches hold, delivered in one step, leave the caches before they are read.
  bool UsesNonTemporalCopies() const { return weight_bytes_ > options_.cache_bytes; }
  void DetachPush(const std::shared_ptr<Operation>& op);
  // Moves `end` to completions_, so that it is called once, when the state of the client is consistent.
  void QueueCallback(Callback& end, const Status& status);
  void FinishOperation(Operation& op, const Status& status);

  // client_control.cc
  void Ask(Time now, transport::PeerId whom, wire::Body body, std::string what, Time deadline,
           AnswerDone done, NetworkRef network);
  void Ask(Time now, membership::ControlRequests::Request request, NetworkRef network);
  void PingServers(Time now, Time deadline, std::function<void(Time, NetworkRef, const Status&)> done,
                   NetworkRef network);
  void SendLeave(Time now, wire::Leave leave, Time deadline, worker::Done done, NetworkRef network);
  void AddKey(const wire::KeyEntry& entry);  // does nothing when the key is known
  struct Declaration;
  void DeclareNextPart(Time now, std::shared_ptr<Declaration> declaration, NetworkRef network);
  void Declare(Time now, std::shared_ptr<Declaration> declaration, NetworkRef network);
  void OnDeclared(Time now, const std::vector<wire::KeyEntry>& entries, std::vector<InitArgs> keys,
                  Time deadline, InitDone done, NetworkRef network);

  const ClientOptions options_;
  NoTracer no_tracer_;
  Tracer& tracer_;
  membership::Client membership_;
  std::optional<Failure> failure_;
  bool done_ = false;
  struct FlushCall {
    Time deadline;
    worker::Done done;
  };
  std::vector<FlushCall> flushes_;  // calls of Flush that are not done
  std::vector<worker::Done> when_joined_;

  const std::shared_ptr<Allocator> records_ = std::make_shared<PoolAllocator>(kKeptRecords);
  std::vector<std::unique_ptr<KeyState>> keys_;  // by id; null: this worker has not declared the key
  std::vector<std::unique_ptr<Shard>> shards_;
  std::map<transport::PeerId, uint32_t> shard_of_;
  RecordMap<uint64_t, std::shared_ptr<Operation>> operations_;  // all open ones, by number
  Time earliest_deadline_ = Time::max();                        // a lower bound of the operations' deadlines
  membership::ControlRequests controls_;
  membership::WaitReports reports_;
  Time next_report_ = Time::max();  // a lower bound of the time at which the next line of reports_ is due
  uint64_t next_id_ = 1;
  uint64_t next_order_ = 1;
  uint64_t barriers_of_all_ = 0;
  uint64_t bytes_copied_ = 0;
  uint64_t weight_bytes_ = 0;  // bytes of the weights of all dense keys
  bool batching_ = false;      // RunAsBatch is running: Start sends nothing
  // Completions run at the end of a call, when the client's state is consistent. The spare
  // vector is empty; its memory is reused.
  std::vector<membership::ControlRequests::Completion> completions_, spare_completions_;
  void RunCompletions(Time now, NetworkRef network);
};

}  // namespace sluice::worker

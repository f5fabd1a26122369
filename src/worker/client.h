// The worker's client: plain arrays to and from the servers. A deterministic machine: its methods are called
// on its loop (Loop::Post), its completions come on its loop. docs/design/protocol.md says what it sends;
// gradient_stages.h is the way of a gradient.
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
  // Per shard: of pushes the shard does not yet have, and as much again of pulls it has not answered. Values
  // that wait for other workers' pushes never keep a push from leaving: two workers would wait for each
  // other.
  uint64_t max_inflight_bytes = 64u << 20;
  size_t cache_bytes = kCacheBytes;  // more than this of weights lands around the caches
  Tracer* tracer = nullptr;          // outlives the client; null: none
  // Called on the loop, once, when the scheduler says that the job has failed, and why; null: nobody asks.
  std::function<void(const std::string& why)> on_told = nullptr;
  // Takes the lines that say whom this worker has waited for, for how long, with what; null: the log.
  std::function<void(const std::string& line)> on_waiting = nullptr;
};

struct InitArgs {
  wire::KeySpec spec;
  Frame value;  // rank 0's counts; row-sparse keys have none
};
struct PushArgs {
  uint32_t key = 0;
  GradientCompression compression;
  Frame source;  // the gradient, or its parts one behind the other as compression::Encode leaves them
  int priority = 0;
  uint32_t exponent = 0;  // of a source that is not compressed (wire::Push)
  uint64_t samples = 0;
  double divisor = 1;
};
struct PullArgs {
  uint32_t key = 0;
  Destination destination;
  int priority = 0;
  uint32_t slot = 0;                         // 0: the weight; i: the optimiser's i-th state
  bool latest = false;                       // whatever is there, in place of this worker's last push
  Compression weights = Compression::kNone;  // how float32 ones come once this worker has pushed the key
};
// Of several small keys at once: one operation, sent as few messages, which ends when it has for all of them.
// What fails for one of them fails it, and the others go on: KeyOp::landed tells of each.
struct SmallKeyBatchArgs {
  OpKind kind = OpKind::kPush;  // or kPushPull, kPull
  // Of one part each, each once; rounds are filled in.
  KeyOps keys{MemoryOf<KeyOp>(HeapAllocator())};
  Frame source;  // of pushes: the gradients as they are, one behind the other
  int priority = 0;
  uint64_t samples = 0;
  double divisor = 1;
  bool latest = false;  // of pulls
};
// Of a row-sparse key.
struct PushRowsArgs {
  uint32_t key = 0;
  Frame source;
  std::shared_ptr<const RowExtents> extents;
  int priority = 0;
  uint64_t samples = 0;
  double divisor = 1;
  uint32_t exponent = 0;
};
struct PullRowsArgs {
  uint32_t key = 0;
  Frame ids;
  Destination destination;
  std::shared_ptr<const RowExtents> extents;
  int priority = 0;
  uint32_t slot = 0;  // 0: the weight after this worker's last push; i: the optimiser's i-th state as it is
};
// The weight of a dense key, in no round.
struct SetArgs {
  uint32_t key = 0;
  Frame source;  // worker 0's counts; others have none
};
// Weights of a row-sparse key (slot 0) or one of its states, beside the number of updates they belong to.
struct StoreRowsArgs {
  uint32_t key = 0;
  uint32_t slot = 0;
  uint64_t num_updates = 0;
  Frame source;  // kvstore/rows/frame.h
  std::shared_ptr<const RowExtents> extents;
};

class Client final : public transport::Machine {
 public:
  using NetworkRef = transport::Network&;
  // The ids of the keys, in the order given.
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
  // Once, when the job is complete, or with the reason why it never will be.
  void WhenJoined(worker::Done done);
  uint32_t rank() const { return membership_.rank(); }
  size_t NumDead() const { return membership_.NumDead(); }
  // This worker was asked to end: the others hear it (membership::Options::on_asked_to_end).
  void AskToEnd(NetworkRef network) { membership_.AskToEnd(network); }
  // Why nothing works any more; empty while it does.
  const std::optional<Failure>& failure() const { return failure_; }

  // --- Keys and values (client_calls.cc). Every `done` is called exactly once. `deadline`: when to give up,
  // with a message that says who is waited for. ---
  // What `calls` starts leaves at its end, in as few messages as it fits.
  void RunAsBatch(Time now, NetworkRef network, FunctionRef<void()> calls);
  void Init(Time now, wire::SyncMode mode, std::vector<InitArgs> keys, Time deadline, InitDone done,
            NetworkRef network);
  void Push(Time now, PushArgs args, Callback done, NetworkRef network);
  // The value after this round lands in `destination`.
  void PushPull(Time now, PushArgs args, Destination destination, Time deadline, Callback done,
                NetworkRef network);
  void Pull(Time now, PullArgs args, Time deadline, Callback done, NetworkRef network);
  void Batch(Time now, SmallKeyBatchArgs args, Time deadline, Callback done, NetworkRef network);
  // The same with rows of row-sparse keys.
  void PushRows(Time now, PushRowsArgs args, Callback done, NetworkRef network);
  void PullRows(Time now, PullRowsArgs args, Time deadline, Callback done, NetworkRef network);
  void StoreRows(Time now, StoreRowsArgs args, Time deadline, Callback done, NetworkRef network);
  // Which rows a part has, from its `first` on: answered by wire::RowIds.
  void GetRowIds(Time now, wire::PartRef part, uint64_t first, Time deadline, AnswerDone done,
                 NetworkRef network);
  // Done when the weight is the servers' to keep: what this worker pushed before is in it, and what anybody
  // pushes in the next round is not. Worker 0 sets it. Who else calls waits, until `deadline`, for worker 0
  // to set it before the same round (async: as often), and fails once that cannot be any more; what it issued
  // later on the key waits, too.
  void Set(Time now, SetArgs args, Time deadline, Callback done, NetworkRef network);
  // Until all rounds that this worker has pushed of the key are closed.
  void AwaitRounds(Time now, uint32_t key, Time deadline, Callback done, NetworkRef network);
  // How many updates the key's optimiser has made.
  void PullUpdates(Time now, uint32_t key, Time deadline, UpdatesDone done, NetworkRef network);
  // Sets that number, and one of its states: float32 (float64 for float64 keys). Slot 0 is no state: `source`
  // is empty.
  void StoreState(Time now, uint32_t key, uint32_t slot, uint64_t num_updates, Frame source, Time deadline,
                  Callback done, NetworkRef network);

  // --- Control ---
  // Of the keys of `store` (wire::KeySpec).
  void SetOptimizer(Time now, const OptimizerConfig& config, uint32_t store, Time deadline, worker::Done done,
                    NetworkRef network);
  // Until worker 0 has set one.
  void AwaitOptimizer(Time now, uint32_t store, Time deadline, worker::Done done, NetworkRef network);
  // Among all nodes (Group::kAll) an empty id is filled in: servers count these barriers, too.
  void Barrier(Time now, wire::Barrier barrier, Time deadline, worker::Done done, NetworkRef network);
  // The same; tells the text of the members' first worker.
  void Agree(Time now, wire::Barrier barrier, Time deadline, TextDone done, NetworkRef network);
  // Before leaving in good order: done when the servers have all that was handed over, or with what they do
  // not have by the deadline. Reads under way end with kCancelled: the rounds of others may take for ever.
  void Flush(Time now, Time deadline, worker::Done done, NetworkRef network);
  // Who has finished sees first that every server lives: a death since the last push would go unnoticed.
  // Fails when the job does meanwhile, and when the scheduler dies before it has heard of it; then nobody has
  // left yet, and leaves by saying that it failed.
  void Leave(Time now, wire::Leave leave, Time deadline, worker::Done done, NetworkRef network);
  // The counters (wire::Stats) of the scheduler or of a shard.
  void GetSchedulerStats(Time now, Time deadline, AnswerDone done, NetworkRef network);
  void GetShardStats(Time now, uint32_t shard, Time deadline, AnswerDone done, NetworkRef network);

  uint32_t num_shards() const { return static_cast<uint32_t>(shards_.size()); }
  uint64_t bytes_copied() const { return bytes_copied_; }  // to where pulls wanted them, and into bundles
  const wire::KeyEntry& entry(uint32_t key) const { return keys_.at(key)->entry; }
  bool Knows(uint32_t key) const { return Find(key) != nullptr; }

 private:
  struct KeyState {
    wire::KeyEntry entry;
    Label name;
    std::vector<plan::Part> parts;
    std::vector<PartSequencer> sequencers;           // by part
    uint64_t pushed = 0;                             // this worker's last round
    uint64_t sets = 0;                               // so often it has set the weight, or waited for that
    std::optional<transport::ContiguousView> views;  // of values that were adopted
    // A shard has refused this worker's push of a round: no value of that round or a later one will come.
    uint64_t refused_round = UINT64_MAX;
    std::optional<Failure> refusal;
  };
  struct Lane {
    void Clear() {
      queue.Clear();
      in_flight = 0;
    }
    // What is more urgent than the last that left does not wait until some of that has arrived.
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
    uint32_t server = 0;  // rank
    OutstandingRequests requests;
    Lane pushes, pulls;
    Lane& LaneOf(const PartOp& part) { return part.Carries() ? pushes : pulls; }
  };

  const KeyState* Find(uint32_t key) const { return key < keys_.size() ? keys_[key].get() : nullptr; }
  KeyState* Find(uint32_t key) { return key < keys_.size() ? keys_[key].get() : nullptr; }
  // Calls use(PartOp&) with those that have not ended.
  template <typename Use>
  void ForPartsOf(const Operation& op, Use&& use) const {
    for (const KeyOp& key_op : op.keys) {
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
  // Whom an operation waits for: what a shard said last, else which servers owe it an answer.
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

  // client_flow.cc: operations to messages
  void Start(Time now, std::shared_ptr<Operation> op, NetworkRef network);
  // Why an operation cannot be done.
  std::optional<Failure> ImpossibleReason(const Operation& op) const;
  std::optional<Failure> ImpossibleReason(const Operation& op, const KeyOp& key_op) const;
  // Why the operation does not fit its key, for which `source` bytes are to be sent; empty: it does.
  static std::string MismatchReason(const Operation& op, const KeyOp& key_op, const KeyState& key,
                                    size_t source);
  // Of a frame that carries one of the key's parts, the first of which is a longest one.
  static size_t LargestFrame(const Operation& op, const KeyState& key);
  // Of an operation on several keys: one on each, with its share of the source. Their ends are its end, with
  // the first failure among them.
  std::vector<std::shared_ptr<Operation>> SplitPerKey(Operation& op) const;
  // Appends what it has to do with each part, in memory of `part_ops`.
  using PartOpArray = std::shared_ptr<PartOp[]>;
  void AppendParts(Time now, const std::shared_ptr<Operation>& op, const PartOpArray& part_ops);
  void AppendRows(Time now, const std::shared_ptr<Operation>& op, const PartOpArray& part_ops);
  // What a push of the key, or of one of its parts, has to send.
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
  void ReleaseInFlight(PartOp& part);  // it no longer counts as in flight
  void SendBatch(uint32_t shard, uint64_t id, const PartOps& batch, NetworkRef network);

  // client_answers.cc: answers to completions
  void Acknowledge(Time now, PartOp& part);
  void NoteArrival(Time now, uint32_t shard, OutstandingRequests::Request& request);
  void OnAck(Time now, uint32_t shard, uint64_t id);
  void OnValues(Time now, uint32_t shard, const wire::Message& message);
  void FailFromRound(KeyState& key, uint64_t round, const Failure& failure);
  static bool NeedsRound(const Operation& op, const KeyOp& key_op, uint64_t round);
  void OnShardError(Time now, uint32_t shard, uint64_t id, const Failure& failure, NetworkRef network);
  void SplitUnfinished(std::shared_ptr<Operation> op);
  void ResendSeparately(Time now, uint32_t shard, const PartOps& parts, NetworkRef network);
  void OnShardWaiting(uint32_t shard, uint64_t id, const wire::StillWaiting& waiting);
  void Repeat(Time now, uint32_t index, NetworkRef network);
  void Finish(const PartOpPtr& part);
  void DeliverAll(Operation& op);  // what it kept
  // Weights of which a step lands more than caches hold have left them before anybody reads them.
  bool UsesNonTemporalCopies() const { return weight_bytes_ > options_.cache_bytes; }
  void DetachPush(const std::shared_ptr<Operation>& op);
  // Once, when all that is under way has been looked at.
  void QueueCallback(Callback& end, const Status& status);
  void FinishOperation(Operation& op, const Status& status);

  // client_control.cc
  void Ask(Time now, transport::PeerId whom, wire::Body body, std::string what, Time deadline,
           AnswerDone done, NetworkRef network);
  void Ask(Time now, membership::ControlRequests::Request request, NetworkRef network);
  void PingServers(Time now, Time deadline, std::function<void(Time, NetworkRef, const Status&)> done,
                   NetworkRef network);
  void SendLeave(Time now, wire::Leave leave, Time deadline, worker::Done done, NetworkRef network);
  void AddKey(const wire::KeyEntry& entry);  // unless it is known
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
  std::vector<FlushCall> flushes_;  // each waits for the same
  std::vector<worker::Done> when_joined_;

  const std::shared_ptr<Allocator> records_ = std::make_shared<PoolAllocator>(kKeptRecords);
  std::vector<std::unique_ptr<KeyState>> keys_;  // by id; null: not declared here
  std::vector<std::unique_ptr<Shard>> shards_;
  std::map<transport::PeerId, uint32_t> shard_of_;
  RecordMap<uint64_t, std::shared_ptr<Operation>> operations_;  // all open ones, by number
  Time earliest_deadline_ = Time::max();                        // of operations; a lower bound
  membership::ControlRequests controls_;
  membership::WaitReports reports_;
  Time next_report_ = Time::max();  // not later than the first line that is due
  uint64_t next_id_ = 1;
  uint64_t next_order_ = 1;
  uint64_t barriers_of_all_ = 0;
  uint64_t bytes_copied_ = 0;
  uint64_t weight_bytes_ = 0;  // of all dense keys
  bool batching_ = false;      // what has been started waits for more
  LogLimiter limiter_{5, 10s};
  // Run when a call has left the machine in order. The spare one is empty, and has room.
  std::vector<membership::ControlRequests::Completion> completions_, spare_completions_;
  void RunCompletions(Time now, NetworkRef network);
};

}  // namespace sluice::worker

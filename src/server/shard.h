// A server's shard: one thread, one socket, the keys' parts that live here. The gradient's journey through
// it:
//   receive/    what came is checked against the key table; repeats are acknowledged and dropped
//   aggregate/  frames are kept as they came, by round and worker
//   update/     a round that all live workers have pushed closes in one pass
//   reply/      who waited for the version gets it, without a copy
// A deterministic machine; docs/design/protocol.md says what it answers. What comes from the control machine
// is handed in between calls (Loop::Post) through the methods under "from the control machine".
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/non_temporal_copy.h"
#include "base/pool_allocator.h"
#include "server/aggregate/key.h"
#include "server/reply/reply_batcher.h"
#include "server/shard_counters.h"
#include "server/update/update_queue.h"

namespace sluice::server {

struct ShardOptions {
  uint64_t job = 0;
  uint64_t incarnation = 0;
  uint32_t thread = 0;  // which of its server's shards this is
  uint32_t shards_per_server = 1;
  ServerUpdater updater;
  std::shared_ptr<Allocator> memory = HeapAllocator();  // of weights, and of all that answers carry
  size_t cache_bytes = kCacheBytes;                  // more than this of weights is written around the caches
  UpdateQueue::Helpers helpers;                      // of large updates; none: this shard's thread alone
  std::function<wire::Counters()> process_counters;  // go with this shard's own in Stats; null: none
  bool deduplicate = true;                           // off only in tests that must find the bug this makes
};

class Shard final : public transport::Machine {
 public:
  explicit Shard(ShardOptions options)
      : options_(std::move(options)),
        own_rule_{.optimizer = nullptr, .updater = options_.updater},
        update_queue_(options_.helpers) {}

  void OnStart(Time, transport::Network&) override {}
  void OnMessage(Time now, transport::PeerId from, wire::Message message,
                 transport::Network& network) override;
  void OnBurstEnd(Time, transport::Network& network) override { Flush(network); }
  void OnRoom(Time now, transport::PeerId peer, transport::Network& network) override;
  void OnTimer(Time now, transport::Network& network) override;
  void OnEnd(Time, const std::string&, transport::Network&) override { update_queue_.Run(); }
  Time NextTimer() const override { return std::min(next_status_at_, next_return_); }
  bool Done() const override { return done_; }
  Duration Linger() const override { return linger_; }
  std::string DumpState(Time now) const override;

  // --- From the control machine ---
  // New keys, and repeats of known ones. Sound entries only (plan::InvalidReason).
  Status AddKeys(const std::vector<wire::KeyEntry>& entries);
  // From the first round on of each key of `store` (1 where none is named) its updates are this optimiser's;
  // async: from now on.
  Status SetOptimizer(const OptimizerConfig& config, const std::map<uint32_t, uint64_t>& first_rounds,
                      uint32_t store = 0);
  // Who is alive: may close rounds that waited for the dead.
  void SetMembership(uint32_t rank, uint64_t epoch, const std::vector<wire::NodeInfo>& roster,
                     transport::Network& network);
  // `linger`: how long what was sent may take to leave.
  void End(Duration linger) {
    done_ = true;
    linger_ = linger;
  }

  wire::Counters counters() const { return counters_.ByName(); }

 private:
  struct Sender {
    uint32_t rank;
    transport::PeerId peer;
    uint64_t request_id;
  };
  struct ConfiguredRule {
    std::map<uint32_t, uint64_t> first_rounds;
    UpdateRule rule;
    uint64_t FirstRound(uint32_t key) const {
      const auto it = first_rounds.find(key);
      return it == first_rounds.end() ? 1 : it->second;
    }
  };

  void Handle(Time now, transport::PeerId from, wire::Message& message, transport::Network& network);

  // receive/
  bool IsMember(const wire::Sender& sender) const;
  void CopyCheckedFrames(wire::Message& message);
  Result<Part*> FindPart(const wire::PartRef& ref, Key** key);
  void OnPush(Time now, const Sender& sender, wire::Message& message, transport::Network& network);
  Status ValidatePush(const wire::Push& push, size_t i, Bytes bytes, Key** key, Part** part);
  void OnPull(Time now, const Sender& sender, const wire::Message& message, transport::Network& network);
  void OnPullRows(Time now, const Sender& sender, const wire::Message& message, transport::Network& network);
  Status ValidatePullRows(const Sender& sender, const wire::RowsPart& wanted, Bytes ids, Key** key,
                          Part** part);
  void OnGetRowIds(const Sender& sender, const wire::Message& message, transport::Network& network);
  void OnStore(const Sender& sender, wire::Message& message, transport::Network& network);
  void OnGetStats(const Sender& sender, transport::Network& network);
  Status ValidateStore(const Sender& sender, const wire::Store& store, size_t i, Bytes bytes, Key** key,
                       Part** part);
  Status ValidateStoreRows(const wire::Store& store, size_t i, Bytes bytes, const Key& key, Part& part) const;
  static void StoreRows(Part& part, uint32_t slot, const Frame& frame);
  Status ValidateState(const Key& key, Part& part, const wire::StorePart& state) const;
  Status ValidateSet(const Sender& sender, const Key& key, const Part& part, uint64_t version) const;
  void StoreValue(Key& key, Part& part, const Frame& value);
  void SetWeight(Key& key, Part& part, uint64_t version, const Frame& value, Part::Request by);
  static void StoreState(Part& part, const wire::StorePart& state, const Frame& frame, Part::Request by);

  // aggregate/
  enum class Admission : uint8_t { kNew, kRepeat };
  // Pushes that have waited for long in the memory of those who sent them are kept in copies.
  void ReturnLeases(Time now);
  void NoteLease(const Contribution& contribution);
  // Pushes are added up as they come, so that memory does not grow with the number of workers.
  bool SumsEarly(const Key& key) const { return num_workers_ > kMostKept && !key.places; }
  Result<Admission> AdmitSync(const Sender& sender, Key& key, Part& part, uint64_t round,
                              Contribution contribution);
  Result<Admission> AdmitAsync(const Sender& sender, Key& key, Part& part, uint64_t round,
                               Contribution contribution);

  // update/
  const UpdateRule& RuleFor(const Key& key, uint64_t round) const;
  const UpdateRule& NewestRule(uint32_t store) const;
  // The parts of this shard whose next round closes together with this one's: itself, or where the update
  // needs norms the whole key.
  std::span<Part> ClosingWith(Key& key, Part& part) const;
  std::span<const Part> ClosingWith(const Key& key, const Part& part) const;
  void CloseRounds(Key& key, Part& part);
  enum class Closed : uint8_t { kNothing, kPart, kKey };
  Closed CloseNext(Key& key, Part& part);
  void ApplyStaged(Key& key, Key::WorkerPushes& pushes);
  // What closes on a part: frames in rank order, or in their place what they add up to.
  struct Closing {
    Part* part;
    Gradients gradients;
    double divisor;
    uint64_t samples;
    const std::byte* summed = nullptr;
    bool leased = false;  // gradients are read where the workers have them
  };
  void Update(Key& key, std::span<const Closing> closings);
  void UpdateArrays(Key& key, const UpdateRule& rule, std::span<const Closing> closings);
  void UpdateTables(const Key& key, const UpdateRule& rule, std::span<const Closing> closings) const;
  UpdateInput InputOf(const Key& key, const UpdateRule& rule, const Closing& closing) const;
  void PrepareStates(const UpdateRule& rule, const wire::KeySpec& spec, Part& part) const;
  void Prune(std::vector<ConfiguredRule>* set, uint32_t store) const;

  // reply/
  // The version that pulls of a worker of this rank go by.
  static uint64_t VersionFor(const Key& key, const Part& part, uint32_t rank);
  bool Ready(const Key& key, const Part& part, const Waiter& waiter) const;
  static bool WaitsForPinned(const Key& key, const Part& part, const Waiter& waiter);
  // At once, where it is ready and its peer has room. False: it waits.
  bool AnswerOrWait(Time now, Key& key, Part& part, Waiter waiter);
  bool HasRoom(const Waiter& waiter) const;
  void DeferAnswer(Key& key, Part& part, Waiter& waiter);
  // Some of the answers that were put off, to who has room now. False: there are none.
  bool AnswerSomeDeferred();
  void AnswerDeferred(transport::PeerId peer, const wire::PartRef& ref);
  void Answer(const Key& key, Part& part, const Waiter& waiter);
  Frame ReadRows(const Part& part, const Waiter& waiter) const;
  void AnswerWaiters(Key& key, Part& part);
  void KeepWaiting(Time now, Part& part, Waiter waiter);
  // Whoever has waited long enough hears for whom; makes next_status_at_ later.
  void SendStatusUpdates(Time now, const Key& key, std::vector<Part>& parts, transport::Network& network);
  // Whom the waiter waits for: "worker 1, worker 2".
  std::string MissingText(const Key& key, const Part& part, const Waiter& waiter) const;
  std::string MissingText(const Key& key, const Part& part) const;  // for the part's next version
  std::string UnsatisfiableReason(const Key& key, const Part& part, const Waiter& waiter) const;
  void FailUnsatisfiable(Key& key, transport::Network& network);
  void Flush(transport::Network& network);
  void Send(transport::PeerId to, uint64_t in_reply_to, wire::Body body, wire::Frames frames,
            transport::Network& network);
  void SendError(const Sender& to, const Failure& failure, transport::Network& network);

  const ShardOptions options_;
  const UpdateRule own_rule_;  // where no optimiser was set: the program's function, or to assign
  uint32_t index() const {
    return rank_ * options_.shards_per_server + options_.thread;
  }  // among the job's shards

  uint32_t rank_ = 0;  // of the server
  uint64_t epoch_ = 0;
  std::map<uint32_t, uint64_t> incarnations_;                   // of the members, by worker rank
  std::set<uint32_t> live_;                                     // worker ranks
  uint32_t num_workers_ = 1;                                    // of the job, whether they live or not
  bool worker_0_left_ = false;                                  // in good order
  std::vector<std::unique_ptr<Key>> keys_;                      // by id; null where this shard has no part
  std::map<uint32_t, std::vector<ConfiguredRule>> optimizers_;  // of each store, in the order set
  UpdateQueue update_queue_;                                    // none waits when the loop rests
  ReplyBatcher replies_;
  // Lists for each peer the parts whose values it gets once it has room; every waiter that is put off waits
  // on one of them. The answer is made then, and takes no memory before but a reference.
  struct BeforePart {
    bool operator()(const wire::PartRef& a, const wire::PartRef& b) const {
      return std::pair(a.key, a.part) < std::pair(b.key, b.part);
    }
  };
  std::map<transport::PeerId, std::set<wire::PartRef, BeforePart>> deferred_;
  std::set<transport::PeerId> without_room_;
  Time next_status_at_ = Time::max();  // not later than that of any waiter
  Time next_return_ = Time::max();     // not later than that of any push kept in another's memory
  size_t weight_bytes_ = 0;            // of all dense parts here
  // Of many workers' sums: what a round gives back the next one has.
  const std::shared_ptr<Allocator> sums_memory_ = std::make_shared<PoolAllocator>(kKeptSums);
  ShardCounters counters_;
  LogLimiter limiter_{5, 10s};
  bool done_ = false;
  Duration linger_ = Duration::max();
};

}  // namespace sluice::server

// A server's shard: one thread with one socket, and the parts of keys that it owns (keys/). A gradient passes
// through four steps, each of which has a folder:
//   receive/    checks a message against the keys; acknowledges and drops repeated pushes
//   aggregate/  keeps the frames as they came, by round and worker
//   update/     closes a round in one pass, once all live workers have pushed it
//   reply/      answers the requests that wait for the new version, without copying the weight
// Shard is a deterministic machine; docs/design/protocol.md describes what it answers. The control machine
// calls the methods under "From the control machine" between two messages (Loop::Post).
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/non_temporal_copy.h"
#include "base/pool_allocator.h"
#include "server/keys/shard_keys.h"
#include "server/reply/reply_batcher.h"
#include "server/shard_counters.h"
#include "server/update/update_queue.h"

namespace sluice::server {

// In a job with more workers than this, a round does not keep all its pushes until it closes: whenever it
// has kept this many they are added up.
inline constexpr uint32_t kMostKept = 32;
// Bytes of freed sums that a shard keeps for the next rounds.
inline constexpr size_t kKeptSums = size_t{256} << 20;

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

class Shard final : public transport::Machine {
 public:
  explicit Shard(ShardOptions options)
      : options_(std::move(options)),
        keys_(options_.updater, options_.thread),
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
  struct Sender {
    uint32_t rank;
    transport::PeerId peer;
    uint64_t request_id;
  };

  void Handle(Time now, transport::PeerId from, wire::Message& message, transport::Network& network);

  // receive/
  bool IsMember(const wire::Sender& sender) const;
  void CopyLeasedFrames(wire::Message& message);
  void OnPush(Time now, const Sender& sender, wire::Message& message, transport::Network& network);
  void OnPull(Time now, const Sender& sender, const wire::Message& message, transport::Network& network);
  void OnPullRows(Time now, const Sender& sender, const wire::Message& message, transport::Network& network);
  void OnGetRowIds(const Sender& sender, const wire::Message& message, transport::Network& network);
  void OnStore(const Sender& sender, wire::Message& message, transport::Network& network);
  void OnGetStats(const Sender& sender, transport::Network& network);
  static void StoreRows(ShardPart& part, uint32_t slot, const Frame& frame);
  void StoreValue(ShardKey& key, ShardPart& part, const Frame& value);
  void SetWeight(ShardKey& key, ShardPart& part, uint64_t version, const Frame& value,
                 ShardPart::StoreRequest by);
  static void StoreState(ShardPart& part, const wire::StorePart& state, const Frame& frame,
                         ShardPart::StoreRequest by);

  // aggregate/
  enum class Admission : uint8_t { kNew, kRepeat };
  // Copies the gradients that have stayed for kMaxLeaseTime in the memory of the workers that sent
  // them, and thereby returns the leases.
  void ReturnLeases(Time now);
  void NoteLease(const Contribution& contribution);
  // Whether pushes of the key are added up before their round closes, so that memory does not
  // grow with the number of workers.
  bool SumsEarly(const ShardKey& key) const { return num_workers_ > kMostKept && !key.places; }
  Result<Admission> AdmitSync(const Sender& sender, ShardKey& key, ShardPart& part, uint64_t round,
                              Contribution contribution);
  Result<Admission> AdmitAsync(const Sender& sender, ShardKey& key, ShardPart& part, uint64_t round,
                               Contribution contribution);

  // update/
  // The parts of this shard whose next round closes together with that of `part`: the part alone, or all
  // parts of the key when the update needs norms (sync modes only).
  std::span<ShardPart> PartsClosingWith(ShardKey& key, ShardPart& part) const;
  std::span<const ShardPart> PartsClosingWith(const ShardKey& key, const ShardPart& part) const;
  void CloseRounds(ShardKey& key, ShardPart& part);
  enum class Closed : uint8_t { kNothing, kPart, kKey };
  Closed CloseNext(ShardKey& key, ShardPart& part);
  void ApplyStaged(ShardKey& key, ShardKey::WorkerPushes& pushes);
  // One round of one part that closes.
  struct Closing {
    ShardPart* part;
    Gradients gradients;  // in rank order; unused where `summed` is set
    double divisor;
    uint64_t samples;
    const std::byte* summed = nullptr;  // the sum of the gradients; null: they are not added up yet
    bool leased = false;                // some gradients lie in the memory of the workers that sent them
  };
  void Update(ShardKey& key, std::span<const Closing> closings);
  void UpdateArrays(ShardKey& key, const UpdateRule& rule, std::span<const Closing> closings);
  void UpdateTables(const ShardKey& key, const UpdateRule& rule, std::span<const Closing> closings) const;
  kvstore::UpdateInput InputOf(const ShardKey& key, const UpdateRule& rule, const Closing& closing) const;

  // reply/
  bool Ready(const ShardKey& key, const ShardPart& part, const PendingRequest& waiter) const;
  static bool WaitsForPinned(const ShardKey& key, const ShardPart& part, const PendingRequest& waiter);
  // Answers at once when the waiter is ready and its peer has room, and returns true. Otherwise
  // keeps the waiter and returns false.
  bool AnswerOrWait(Time now, ShardKey& key, ShardPart& part, PendingRequest waiter);
  bool HasRoom(const PendingRequest& waiter) const;
  void DeferAnswer(ShardKey& key, ShardPart& part, PendingRequest& waiter);
  // Makes some of the deferred answers whose peers have room now. False: there are none.
  bool AnswerSomeDeferred();
  void AnswerDeferred(transport::PeerId peer, const wire::PartRef& ref);
  void Answer(const ShardKey& key, ShardPart& part, const PendingRequest& waiter);
  Frame ReadRows(const ShardPart& part, const PendingRequest& waiter) const;
  void AnswerWaiters(ShardKey& key, ShardPart& part);
  void KeepWaiting(Time now, ShardPart& part, PendingRequest waiter);
  // Sends StillWaiting for the waiters whose next status message is due, and lowers next_status_at_ to the
  // earliest time at which another one is due.
  void SendStatusUpdates(Time now, const ShardKey& key, std::vector<ShardPart>& parts,
                         transport::Network& network);
  // Names what the waiter waits for: "worker 1, worker 2".
  std::string MissingText(const ShardKey& key, const ShardPart& part, const PendingRequest& waiter) const;
  std::string MissingText(const ShardKey& key,
                          const ShardPart& part) const;  // the same for the part's next version
  std::string UnsatisfiableReason(const ShardKey& key, const ShardPart& part,
                                  const PendingRequest& waiter) const;
  void FailUnsatisfiable(ShardKey& key, transport::Network& network);
  void Flush(transport::Network& network);
  void Send(transport::PeerId to, uint64_t in_reply_to, wire::Body body, wire::Frames frames,
            transport::Network& network);
  void SendError(const Sender& to, const Failure& failure, transport::Network& network);

  const ShardOptions options_;
  uint32_t rank_ = 0;  // the server's rank
  uint64_t epoch_ = 0;
  std::map<uint32_t, uint64_t> incarnations_;  // by rank; workers that are not dead
  std::set<uint32_t> live_;                    // ranks of live workers
  uint32_t num_workers_ = 1;                   // all workers of the job, dead ones too
  bool worker_0_left_ = false;                 // worker 0 has finished without an error
  ShardKeys keys_;
  UpdateQueue update_queue_;  // empty when the loop is idle
  ReplyBatcher replies_;
  // deferred_ lists for each peer the parts whose values the peer gets once it has room; every deferred
  // waiter belongs to one of these parts. The answer is made only then, so a deferred one takes no memory
  // for its value (in async modes it may hold a pinned version).
  struct BeforePart {
    bool operator()(const wire::PartRef& a, const wire::PartRef& b) const {
      return std::pair(a.key, a.part) < std::pair(b.key, b.part);
    }
  };
  std::map<transport::PeerId, std::set<wire::PartRef, BeforePart>> deferred_;
  std::set<transport::PeerId> without_room_;
  Time next_status_at_ = Time::max();  // at or before the earliest PendingRequest::next_status_at
  Time next_return_ = Time::max();     // at or before the earliest Contribution::return_at
  size_t weight_bytes_ = 0;            // of all dense parts here
  // Memory for the sums of rounds (SumsEarly); the next round reuses what a round has freed.
  const std::shared_ptr<Allocator> sums_memory_ = std::make_shared<PoolAllocator>(kKeptSums);
  ShardCounters counters_;
  LogLimiter limiter_{5, 10s};
  bool done_ = false;
  Duration linger_ = Duration::max();
};

}  // namespace sluice::server

// The distributed stores (dist_sync, dist_async, ...): they connect NDArrays and their events with the
// client's plain arrays and callbacks. gradient_stages.h describes the stages of a gradient.
//
// Thread safety: all methods may be called on any thread; mutex_ serialises the calls on keys.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "collective/reducer.h"
#include "kvstore/states_file.h"
#include "kvstore/store_common.h"
#include "worker/call_batch.h"
#include "worker/client.h"
#include "worker/pull/adoption_budget.h"
#include "worker/push/compressor.h"

namespace sluice::worker {

class DistStore final : public KVStore {
 public:
  struct Options {
    std::string type;  // "dist_sync"
    wire::SyncMode mode = wire::SyncMode::kSync;
    int num_workers = 1;
    uint32_t number = 0;  // counts the stores of the process; all workers make theirs in one order
    collective::HostWork host_work = EnqueueOn;           // runs compression and sums of rows
    std::shared_ptr<Allocator> memory = HeapAllocator();  // for data that is made to be sent
    bool adopts = false;                                  // arrays may adopt leased values
    std::chrono::milliseconds timeout = 10min;            // for pulls and calls that wait, until SetTimeout
    Tracer* tracer = nullptr;                             // must outlive the store; null: none
  };
  // `client` runs on `loop` and has joined the job.
  DistStore(Options options, std::shared_ptr<Client> client, std::shared_ptr<transport::Loop> loop,
            std::unique_ptr<collective::Reducer> reducer);

  using KVStore::Init;
  using KVStore::Pull;
  using KVStore::PullLatest;
  using KVStore::Push;
  using KVStore::PushPull;
  using KVStore::PushRowSparse;
  using KVStore::RowSparsePull;
  using KVStore::Set;
  std::string type() const override { return options_.type; }
  int rank() const override { return rank_; }
  int num_workers() const override { return options_.num_workers; }
  void Init(const std::vector<Key>& keys, const std::vector<NDArray>& values) override;
  void Push(const std::vector<Key>& keys, const std::vector<Values>& values,
            const PushOptions& options) override;
  void Pull(const std::vector<Key>& keys, const std::vector<Values>& outs, int priority) override;
  void PullLatest(const std::vector<Key>& keys, const std::vector<Values>& outs, int priority) override;
  void PushPull(const std::vector<Key>& keys, const std::vector<Values>& values,
                const std::vector<Values>& outs, const PushOptions& options) override;
  void Set(const std::vector<Key>& keys, const std::vector<NDArray>& values) override;
  void InitRowSparse(const Key& key, const Shape& shape, DType dtype, const RowInit& init) override;
  void PushRowSparse(const Key& key, const std::vector<RowSparse>& gradients,
                     const PushOptions& options) override;
  void RowSparsePull(const Key& key, const std::vector<RowSparse>& outs, int priority) override;
  NDArray RowSparseIds(const Key& key) override;
  void SetRowSparse(const Key& key, const RowSparse& rows) override;
  void SetOptimizer(const OptimizerConfig& config) override;
  void SetUpdater(Updater updater) override;
  void SetGradientCompression(const GradientCompression& compression) override;
  void SaveOptimizerStates(const std::string& path) override;
  void LoadOptimizerStates(const std::string& path) override;
  uint64_t NumUpdates(const Key& key) override;
  void SetTimeout(std::chrono::milliseconds timeout) override;
  void WaitAll(std::chrono::milliseconds timeout) override { outstanding_.Wait(Timeout(timeout)); }
  void Barrier(BarrierGroup group, std::chrono::milliseconds timeout) override;
  void Barrier(const std::vector<int>& ranks, std::chrono::milliseconds timeout) override;
  std::string Agree(const std::string& word, std::chrono::milliseconds timeout) override;
  int NumDeadNodes() override;
  // Prepares for leaving the job: returns when the servers have everything that was pushed. Reads in
  // flight end with kCancelled. Throws the first failure that no call has thrown yet, and
  // kDeadlineExceeded after `timeout`.
  void Flush(Duration timeout);

 private:
  struct CallName {
    Label single;   // "push of key w"
    Label batched;  // the name of a small-key batch whose first key this is
  };
  struct KeyState {
    uint32_t id = 0;
    CallName push, push_pull, pull;
    Label set;
    kvstore::KeyShape shape;
    plan::RowPlaces places;  // row-sparse keys only
    Compressor compressor;
    NDArray merged;                 // the sum over this machine's devices
    uint64_t bytes = 0, parts = 0;  // dense keys only
    uint32_t shard = 0;             // the shard of the first part of a dense key
    NDArray staging;                // target of a pull of which no output is in host memory
    Event issued;        // the last operation has been submitted to the client; keeps program order
    uint64_t round = 0;  // the last round pushed
    std::shared_ptr<const void> origin = std::make_shared<char>();  // marks pulled values (tensor/origin.h)
  };
  using Found = InlineVector<KeyState*, 8>;  // the states of a call's keys

  static CallName NameOf(const std::string& call);
  KeyState& Find(const std::string& what, const Key& key);
  // Returns the states of the entries' keys. Throws when a key has not been
  // initialised or its arrays do not fit.
  Found FindAll(const std::string& what, const kvstore::Entries& entries);
  // Creates the keys on all servers and in keys_. Waits.
  void Declare(const std::vector<InitArgs>& keys);
  // Reports `stage` of the key's last round to the tracer when `passed` completes without an error.
  void Trace(const Event& passed, Stage stage, const KeyState& state, uint64_t bytes) const;
  // Returns the array to be pushed: the only value if it is in host memory, else the sum of all values,
  // scaled by collective::ExponentOfSum. Counts the key's round.
  NDArray Source(KeyState& state, const std::vector<NDArray>& values);
  // Returns what is sent of Source(): the array, or its encoding.
  Compressor::EncodedGradient EncodedGradient(KeyState& state, const std::vector<NDArray>& values,
                                              const PushOptions& options);
  // The encoding of pulled weights. A key without an optimiser holds gradients, which are not rounded.
  Compression Weights() const { return optimizer_ == nullptr ? Compression::kNone : compression_.weights; }
  // Returns the array into which the value is pulled: the first output in host memory, else state.staging.
  NDArray Target(KeyState& state, const std::vector<NDArray>& outs);
  // Returns the destination for a value of the key in `target`. `kept`: other arrays are copied from the
  // target, or it is pushed as well, so it must not adopt.
  Destination DestinationIn(NDArray& target, const KeyState& state, bool kept, CallBatch& calls);
  // Called before the bytes of `arrays` are used. That may wait for a pull into an adopting array, and the
  // pull may not have been submitted yet: it is then in `calls`.
  static void SubmitIfAdopting(const std::vector<NDArray>& arrays, CallBatch& calls);
  // Copies the value from the target to the other arrays of `outs`, once it has been delivered.
  void Broadcast(const KeyState& state, const NDArray& target, const Event& delivered,
                 const std::vector<NDArray>& outs);
  // Submits `call` to the client once the events of `after` have completed and everything issued before on
  // this key has been submitted: in `calls` if that is so already. Returns the end of the operation.
  Event Issue(const Label& what, KeyState& state, Events after, Call&& call, CallBatch& calls);
  // Returns a batch for the operations that one call of the store issues on `keys` keys.
  CallBatch NewCallBatch(size_t keys);

  // dist_small_keys.cc
  struct SmallKeys {
    SmallKeyBatchArgs common;
    size_t keys = 0, bytes = 0;  // the call's small keys; a single one is not batched
    Duration timeout{};
  };
  bool IsSmall(const KeyState& state) const;
  SmallKeys SmallOf(OpKind kind, const Found& states, const PushOptions& options) const;
  // Whether the key goes in a small-key batch. `values` are pushed and `outs`
  // pulled into; null: there are none.
  bool GoesInBatch(const SmallKeys& small, const KeyState& state, const std::vector<NDArray>* values,
                   const std::vector<NDArray>* outs) const;
  void AddToBatch(const SmallKeys& small, const CallName& what, KeyState& state,
                  const std::vector<NDArray>* values, const std::vector<NDArray>* outs, CallBatch& calls);

  void PullAll(const std::string& what, const std::vector<Key>& keys, const std::vector<Values>& outs,
               int priority, bool latest);
  void PullInto(KeyState& state, const std::vector<NDArray>& outs, int priority, bool latest,
                CallBatch& calls);
  // Waits until everything that was issued has been submitted to the client. Throws kDeadlineExceeded.
  void WaitIssued(Duration timeout);
  void ForgetIssued();  // drops the events of issuing_ that have completed
  // Runs `call` on the loop, waits for its end and throws its error. `call` may outlive the
  // wait, so it must own what it uses.
  void Await(const std::string& what, Duration timeout, Call call);
  // The two halves of Await: Ask starts the call and returns its end, WaitFor waits and throws.
  Event Ask(const std::string& what, Call call);
  static void WaitFor(const std::vector<Event>& asked, Duration timeout);
  // Returns `given`, or the store's own timeout for kDefaultTimeout.
  Duration Timeout(std::chrono::milliseconds given = kDefaultTimeout) const;
  // Waits in the barrier and returns the text of the member with the lowest rank. `members` describes the
  // members in words; barriers are counted for each such set, which gives the barrier its id.
  std::string WaitIn(wire::Barrier barrier, const std::string& members, std::chrono::milliseconds timeout);

  // dist_states.cc
  std::vector<kvstore::StateLayout> StateLayouts(const std::string& what) const;
  // Each of these starts a call and returns its end.
  Event AskForRounds(const KeyState& key);  // Client::AwaitRounds
  Event AskForUpdates(const KeyState& key, std::shared_ptr<uint64_t> num_updates);
  Event AskForState(const KeyState& key, uint32_t slot, const std::shared_ptr<Buffer>& buffer);
  Event AskToStore(const KeyState& key, uint32_t slot, uint64_t num_updates, const Frame& frame);
  void AwaitRounds(const KeyState& key);
  uint64_t PullUpdates(const KeyState& key);
  // Returns all keys in the order of keys_, in groups that are requested together. A row-sparse key is alone.
  using KeyGroup = std::vector<const KeyState*>;
  std::vector<KeyGroup> GroupsOfKeys() const;
  std::vector<kvstore::KeyStates> PullStates(const KeyGroup& keys);
  void StoreStates(const KeyGroup& keys, std::span<kvstore::KeyStates> states);

  // dist_tables.cc: calls that wait, for row-sparse keys that no worker pushes meanwhile

  // Returns the ids of the rows on all servers after this worker's last round, in ascending order.
  std::vector<int64_t> RowIds(const KeyState& key);
  kvstore::KeyStates PullTableStates(const KeyState& key);
  void StoreTableStates(const KeyState& key, const kvstore::KeyStates& states);
  // Pulls the states of the rows to `to`, in the order of `ids`, which must ascend.
  void PullRowStates(const KeyState& key, uint32_t slot, std::span<const int64_t> ids, std::byte* to);
  // Stores states of the rows, or with slot 0 their weights, from `from`.
  void StoreRows(const KeyState& key, uint32_t slot, uint64_t num_updates, std::span<const int64_t> ids,
                 const std::byte* from);

  const Options options_;
  const ClientLoop client_;
  const std::shared_ptr<Event::LoopDriver> loop_driver_;
  const std::shared_ptr<Allocator> records_;  // for events and open operations
  const std::shared_ptr<Allocator> sent_;     // for the blocks of small-key batches
  const int rank_;
  std::atomic<Duration> timeout_;
  std::mutex mutex_;
  // Guarded by mutex_.
  const std::unique_ptr<collective::Reducer> reducer_;
  std::map<Key, KeyState> keys_;
  std::vector<Event> issuing_;  // KeyState::issued of operations that are not submitted, and some that are
  std::shared_ptr<const Optimizer> optimizer_;
  GradientCompression compression_;
  std::map<std::string, uint64_t> barriers_;    // by members
  kvstore::OutstandingOperations outstanding_;  // thread-safe, also used without mutex_
  AdoptionBudget adoption_budget_;
};

}  // namespace sluice::worker

// The distributed stores: a shell of NDArrays around the client's plain arrays. gradient_stages.h tells the
// way through it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "collective/reducer.h"
#include "kvstore/states_file.h"
#include "kvstore/store_base.h"
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
    uint32_t number = 0;  // among the stores of this process: all workers make theirs in one order
    collective::HostWork host_work = EnqueueOn;           // compresses gradients
    std::shared_ptr<Allocator> memory = HeapAllocator();  // of what is made to be sent
    bool adopts = false;  // values that servers lend stay where they are, where arrays can read them there
    std::chrono::milliseconds timeout = 10min;  // of pulls and calls that wait, until SetTimeout
    Tracer* tracer = nullptr;                   // outlives the store; null: none
  };
  // `client` runs on `loop` and has joined.
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
  // Before this worker leaves its job: returns when the servers have all that was pushed. Ends reads under
  // way. Throws the first failure that no call has thrown yet, and kDeadlineExceeded.
  void Flush(Duration timeout);

 private:
  struct CallName {
    Label single;   // "push of key w"
    Label batched;  // in a bundle that begins with it
  };
  struct KeyState {
    uint32_t id = 0;
    CallName push, push_pull, pull;
    Label set;
    kvstore::KeyShape shape;
    plan::RowPlaces places;  // of a row-sparse key
    Compressor compressor;
    NDArray merged;                 // the sum over this machine's devices
    uint64_t bytes = 0, parts = 0;  // of a dense key
    uint32_t shard = 0;             // of its first part
    NDArray staging;                // where a pull lands when no output is in host memory
    Event issued;                   // the last operation has been handed to the client: keeps program order
    uint64_t round = 0;             // the last one pushed
    std::shared_ptr<const void> origin = std::make_shared<char>();  // of what is pulled (tensor/origin.h)
  };
  using Found = InlineVector<KeyState*, 8>;  // of a call's keys

  static CallName NameOf(const std::string& call);
  KeyState& Find(const std::string& what, const Key& key);
  // The states of keys whose arrays fit.
  Found FindAll(const std::string& what, const kvstore::Entries& entries);
  // Makes the keys on all servers, and here.
  void Declare(const std::vector<InitArgs>& keys);
  // The tracer hears when the key's last round has passed `stage`.
  void Trace(const Event& passed, Stage stage, const KeyState& state, uint64_t bytes) const;
  // The array to be pushed: the only host array itself, or the sum of all (collective::ExponentOfSum).
  NDArray Source(KeyState& state, const std::vector<NDArray>& values);
  // What is sent of it.
  Compressor::Outgoing Outgoing(KeyState& state, const std::vector<NDArray>& values,
                                const PushOptions& options);
  // How weights come back: gradients, which is what a key without an optimiser holds, as they are.
  Compression Weights() const { return optimizer_ == nullptr ? Compression::kNone : compression_.weights; }
  NDArray Target(KeyState& state, const std::vector<NDArray>& outs);
  // Where values of the key land in `target`. `kept`: another array reads them from there, or pushes it.
  Destination DestinationIn(NDArray& target, const KeyState& state, bool kept, CallBatch& calls);
  // Before bytes of these are asked for, which may wait for what `calls` has yet to hand over.
  static void SubmitIfAdopting(const std::vector<NDArray>& arrays, CallBatch& calls);
  // From the target, once it has `landed`, to the other arrays.
  void Broadcast(const KeyState& state, const NDArray& target, const Event& delivered,
                 const std::vector<NDArray>& outs);
  // Hands `call` to the client once `after` is done and what was issued before on this key has been handed
  // over. The event is the operation's end.
  Event Issue(const Label& what, KeyState& state, Events after, Call&& call, CallBatch& calls);
  // For what one call of the store issues, on so many keys.
  CallBatch NewCallBatch(size_t keys);

  // dist_bundles.cc
  struct SmallKeys {
    SmallKeyBatchArgs common;
    size_t keys = 0, bytes = 0;  // of the call that may go in bundles; fewer than two do not
    Duration timeout{};
  };
  bool IsSmall(const KeyState& state) const;
  SmallKeys SmallOf(OpKind kind, const Found& states, const PushOptions& options) const;
  // With `values` to be pushed and `outs` to be pulled into, null where there are none.
  bool GoesInBatch(const SmallKeys& small, const KeyState& state, const std::vector<NDArray>* values,
                   const std::vector<NDArray>* outs) const;
  void AddToBatch(const SmallKeys& small, const CallName& what, KeyState& state,
                  const std::vector<NDArray>* values, const std::vector<NDArray>* outs, CallBatch& calls);

  void PullAll(const std::string& what, const std::vector<Key>& keys, const std::vector<Values>& outs,
               int priority, bool latest);
  void PullInto(KeyState& state, const std::vector<NDArray>& outs, int priority, bool latest,
                CallBatch& calls);
  // For all that has been issued to be handed over, whatever the number of keys. Throws kDeadlineExceeded.
  void WaitIssued(Duration timeout);
  void ForgetIssued();  // what has been
  // Runs `call` on the loop and waits for its end. `call` may outlive the wait: it owns what it uses.
  void Await(const std::string& what, Duration timeout, Call call);
  // The two halves of Await: the call's end, and the wait for each, which throws what went wrong.
  Event Ask(const std::string& what, Call call);
  static void WaitFor(const std::vector<Event>& asked, Duration timeout);
  // What a call was given, or the store's own.
  Duration Timeout(std::chrono::milliseconds given = kDefaultTimeout) const;
  // `members`: who they are, in words; each has a count of its own. The id is chosen here.
  // Returns the text of the first of them.
  std::string WaitIn(wire::Barrier barrier, const std::string& members, std::chrono::milliseconds timeout);

  // dist_states.cc
  std::vector<kvstore::StateLayout> StateLayouts(const std::string& what) const;
  // Each returns the call's end.
  Event AskForRounds(const KeyState& key);  // all that this worker has pushed are closed
  Event AskForUpdates(const KeyState& key, std::shared_ptr<uint64_t> num_updates);
  Event AskForState(const KeyState& key, uint32_t slot, const std::shared_ptr<Buffer>& buffer);
  Event AskToStore(const KeyState& key, uint32_t slot, uint64_t num_updates, const Frame& frame);
  void AwaitRounds(const KeyState& key);
  uint64_t PullUpdates(const KeyState& key);
  // All keys in their order, in groups that are asked for together; a table is alone.
  using KeyGroup = std::vector<const KeyState*>;
  std::vector<KeyGroup> GroupsOfKeys() const;
  std::vector<kvstore::KeyStates> PullStates(const KeyGroup& keys);
  void StoreStates(const KeyGroup& keys, std::span<kvstore::KeyStates> states);

  // dist_tables.cc: calls that wait, on tables at rest.
  // The rows on all servers, once this worker's last round has closed; ascending.
  std::vector<int64_t> RowIds(const KeyState& key);
  kvstore::KeyStates PullTableStates(const KeyState& key);
  void StoreTableStates(const KeyState& key, const kvstore::KeyStates& states);
  // Rows' states, in the order of `ids`, which ascend.
  void PullRowStates(const KeyState& key, uint32_t slot, std::span<const int64_t> ids, std::byte* to);
  // The same, or with slot 0 weights, the other way.
  void StoreRows(const KeyState& key, uint32_t slot, uint64_t num_updates, std::span<const int64_t> ids,
                 const std::byte* from);

  const Options options_;
  const ClientLoop client_;
  const std::shared_ptr<Event::LoopDriver> loop_driver_;
  const std::shared_ptr<Allocator> records_;  // of what is under way
  const std::shared_ptr<Allocator> sent_;     // of bundles
  const int rank_;
  std::atomic<Duration> timeout_;
  std::mutex mutex_;
  // Guarded by mutex_.
  const std::unique_ptr<collective::Reducer> reducer_;
  std::map<Key, KeyState> keys_;
  std::vector<Event> issuing_;  // of operations not handed over yet, and of some that have been
  std::shared_ptr<const Optimizer> optimizer_;
  GradientCompression compression_;
  std::map<std::string, uint64_t> barriers_;  // by members
  kvstore::OutstandingOperations outstanding_;
  AdoptionBudget adoption_budget_;
};

}  // namespace sluice::worker

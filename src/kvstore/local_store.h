// The stores of one process: `local` sums and updates in host memory,
// `device` on the devices. Public methods are thread-safe; pushes and pulls
// return before they are done, and later uses of the arrays wait for them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <thread>

#include "base/mutex.h"
#include "collective/reducer.h"
#include "kvstore/rows/row_table.h"
#include "kvstore/states_file.h"
#include "kvstore/store_common.h"
#include "kvstore/update_array.h"

namespace sluice::kvstore {

class LocalStore final : public KVStore {
 public:
  LocalStore(std::string type, std::unique_ptr<collective::Reducer> reducer)
      : type_(std::move(type)), reducer_(std::move(reducer)) {}

  using KVStore::Init;
  using KVStore::Pull;
  using KVStore::PullLatest;
  using KVStore::Push;
  using KVStore::PushPull;
  using KVStore::PushRowSparse;
  using KVStore::RowSparsePull;
  using KVStore::Set;
  std::string type() const override { return type_; }
  int rank() const override { return 0; }
  int num_workers() const override { return 1; }
  void Init(const std::vector<Key>& keys, const std::vector<NDArray>& values) override;
  void Push(const std::vector<Key>& keys, const std::vector<Values>& values,
            const PushOptions& options) override;
  void Pull(const std::vector<Key>& keys, const std::vector<Values>& outs, int priority) override;
  void PullLatest(const std::vector<Key>& keys, const std::vector<Values>& outs, int priority) override {
    Pull(keys, outs, priority);
  }
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
  void SetTimeout(std::chrono::milliseconds timeout) override {
    RequireTimeout(timeout);
    timeout_ = Bounded(timeout);
  }
  void WaitAll(std::chrono::milliseconds timeout) override {
    outstanding_.Wait(timeout == kDefaultTimeout ? timeout_.load() : Bounded(timeout));
  }
  void Barrier(BarrierGroup, std::chrono::milliseconds) override {}
  void Barrier(const std::vector<int>& ranks, std::chrono::milliseconds) override {
    RequireRanks(ranks, 0, 1);
  }
  std::string Agree(const std::string& word, std::chrono::milliseconds) override {
    RequireWord(word);
    return word;
  }
  int NumDeadNodes() override { return 0; }

 private:
  struct KeyState {
    KeyShape shape;
    wire::KeySpec spec;
    std::shared_ptr<RowTable> rows;  // row-sparse keys: the rows, in place of the arrays
    Event rows_used;                 // the end of the last call on `rows`
    NDArray weight;
    NDArray merged;  // holds the sum of the gradients; made with the first push of several
    States states;
    int64_t num_updates = 0;
    std::shared_ptr<const ArrayUpdate> update;  // null: made from the rule and the states when needed
    Label update_name, push_name, pull_name;
    // The origin of the values that are pulled (tensor/origin.h).
    std::shared_ptr<const void> origin = std::make_shared<char>();
  };
  // Returns mutex_ for a call of the store. Throws Error(kFailedPrecondition)
  // when an updater makes the call: its thread holds the lock already.
  Mutex& MutexForCall() SLUICE_RETURN_CAPABILITY(mutex_);
  KeyState& Find(const std::string& what, const Key& key) SLUICE_REQUIRES(mutex_);
  void RequireNew(const Key& key, const wire::KeySpec& spec) const SLUICE_REQUIRES(mutex_);
  void RequireNew(const Entries& entries) const SLUICE_REQUIRES(mutex_);
  // The input of the update by a push; nullopt when the optimiser
  // normalises by samples and the push has none, so that nothing changes.
  std::optional<UpdateInput> NextUpdate(KeyState& state, const PushOptions& options) const
      SLUICE_REQUIRES(mutex_);
  void RequirePush(const std::string& what, const Entries& entries, const PushOptions& options)
      SLUICE_REQUIRES(mutex_);
  void RequirePull(const std::string& what, const Entries& entries) SLUICE_REQUIRES(mutex_);
  // PushAll and PullAll expect arguments that RequirePush and RequirePull have checked.
  void PushAll(const Entries& entries, const PushOptions& options) SLUICE_REQUIRES(mutex_);
  void PullAll(const Entries& entries) SLUICE_REQUIRES(mutex_);
  void RunUpdater(const Key& key, const NDArray& gradient, NDArray& weight) SLUICE_REQUIRES(mutex_);
  void PushOne(const Key& key, const std::vector<NDArray>& values, const PushOptions& options)
      SLUICE_REQUIRES(mutex_);
  void PlaceByLoad(KeyState& state, const std::vector<NDArray>& values) SLUICE_REQUIRES(mutex_);
  // The sum of `values` divided by 2^exponent. A single value is returned as it is.
  NDArray Merge(KeyState& state, const std::vector<NDArray>& values, uint32_t exponent)
      SLUICE_REQUIRES(mutex_);
  void FitStates(KeyState& state) const SLUICE_REQUIRES(mutex_);
  void AddUpdate(KeyState& state, const NDArray& gradient, uint32_t exponent, const PushOptions& options)
      SLUICE_REQUIRES(mutex_);
  void EnqueueAdded() SLUICE_REQUIRES(mutex_);
  std::vector<std::pair<std::string, KeyState*>> ByText() SLUICE_REQUIRES(mutex_);
  static StateLayout LayoutOf(const std::string& text, const KeyShape& shape);
  KeyStates StatesOfArray(KeyState& state) const SLUICE_REQUIRES(mutex_);
  // local_rows.cc
  void UpdateRowsByFunction(const Key& key, KeyState& state, std::span<const int64_t> ids,
                            const std::vector<RowSparse>& gradients) SLUICE_REQUIRES(mutex_);
  // StatesOfTable and SetStatesOfTable expect that no operation on the table is in progress.
  KeyStates StatesOfTable(KeyState& state) const SLUICE_REQUIRES(mutex_);
  void SetStatesOfTable(KeyState& state, const KeyStates& loaded) const SLUICE_REQUIRES(mutex_);

  const std::string type_;
  std::atomic<Duration> timeout_ = kNoLimit;
  std::atomic<std::thread::id> updating_;  // the thread that runs the updater
  Mutex mutex_;
  const std::unique_ptr<collective::Reducer> reducer_ SLUICE_GUARDED_BY(mutex_);
  std::map<Key, KeyState> keys_ SLUICE_GUARDED_BY(mutex_);
  UpdateRule rule_ SLUICE_GUARDED_BY(mutex_);
  Updater updater_ SLUICE_GUARDED_BY(mutex_);
  std::vector<PendingUpdate> added_ SLUICE_GUARDED_BY(mutex_);  // updates of the call in progress
  std::vector<Label> added_names_ SLUICE_GUARDED_BY(mutex_);    // their names in messages
  OutstandingOperations outstanding_;
};

// A store of type "local" or "device"; `threads` is collective::MakeHostReducer's.
std::shared_ptr<KVStore> MakeLocalStore(const std::string& type, int threads);

}  // namespace sluice::kvstore

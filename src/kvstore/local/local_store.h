// The stores of one process: `local` sums and updates in host memory, `device` on the devices. Public
// methods are thread-safe; pushes and pulls return before they are done, and later uses of the arrays wait
// for them. LocalStore throws earlier failures and locks; LocalDenseKeys, LocalRowSparseKeys and
// local_states.h do the work.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "collective/reducer.h"
#include "kvstore/local/local_context.h"
#include "kvstore/local/local_dense_keys.h"
#include "kvstore/local/local_key_table.h"
#include "kvstore/local/local_row_sparse_keys.h"
#include "sluice/store_type.h"

namespace sluice::kvstore {

class LocalStore final : public KVStore {
 public:
  LocalStore(std::string type, std::unique_ptr<collective::Reducer> reducer);

  using KVStore::PushRowSparse;
  using KVStore::RowSparsePull;
  std::string type() const override { return type_; }
  int rank() const override { return 0; }
  int num_workers() const override { return 1; }
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
    context_.timeout = Bounded(timeout);
  }
  void WaitAll(std::chrono::milliseconds timeout) override {
    context_.outstanding.Wait(timeout == kDefaultTimeout ? context_.timeout.load() : Bounded(timeout));
  }
  void Barrier(BarrierGroup, std::chrono::milliseconds) override { context_.outstanding.Check(); }
  void Barrier(const std::vector<int>& ranks, std::chrono::milliseconds) override;
  std::string Agree(const std::string& word, std::chrono::milliseconds) override;
  int NumDeadNodes() override { return 0; }

 private:
  void DoInit(const std::vector<Key>& keys, const std::vector<NDArray>& values) override;
  void DoPush(const std::vector<Key>& keys, const std::vector<Values>& values,
              const PushOptions& options) override;
  void DoPull(const std::vector<Key>& keys, const std::vector<Values>& outs, int priority,
              bool latest) override;
  void DoPushPull(const std::vector<Key>& keys, const std::vector<Values>& values,
                  const std::vector<Values>& outs, const PushOptions& options) override;
  void DoSet(const std::vector<Key>& keys, const std::vector<NDArray>& values) override;

  // Returns mutex_ for a call of the store. Throws Error(kFailedPrecondition)
  // when an updater makes the call: its thread holds the lock already.
  Mutex& MutexForCall() SLUICE_RETURN_CAPABILITY(mutex_);

  const std::string type_;
  LocalContext context_;
  Mutex mutex_;
  LocalSettings settings_ SLUICE_GUARDED_BY(mutex_);
  LocalKeyTable keys_ SLUICE_GUARDED_BY(mutex_);
  LocalDenseKeys dense_keys_ SLUICE_GUARDED_BY(mutex_);
  LocalRowSparseKeys row_sparse_keys_ SLUICE_GUARDED_BY(mutex_);
};

// Makes a store of a type that is not distributed. `threads` is MakeHostReducer's, `timeout` is
// MakeNcclReducer's (collective/reducer.h). Throws what these throw.
std::shared_ptr<KVStore> MakeLocalStore(const StoreType& type, int threads, Duration timeout);

}  // namespace sluice::kvstore

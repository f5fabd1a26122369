// The distributed stores (dist_sync, dist_async, ...): they connect NDArrays and their events with the
// client's plain arrays and callbacks. DistStore takes the calls of the program: it throws earlier failures,
// locks what it has to, and hands the call to the part that does it:
//
//   dense_keys.h        Push, Pull, PushPull and Set, with device_arrays.h and small_keys.h
//   row_sparse_keys.h   the same for row-sparse keys, with row_tables.h
//   optimizer_states.h  saves and loads states, with state_calls.h
//   control_calls.h     the optimiser, barriers, leaving
//   declare.h           makes keys; store_key_table.h has them
//   issuer.h            brings operations to the client in order
//   store_context.h     what all parts use
//
// Thread safety: all methods may be called on any thread; mutex_ serialises the calls on keys.
#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "worker/store/control_calls.h"
#include "worker/store/dense_keys.h"
#include "worker/store/issuer.h"
#include "worker/store/optimizer_states.h"
#include "worker/store/row_sparse_keys.h"
#include "worker/store/store_context.h"
#include "worker/store/store_key_table.h"

namespace sluice::worker {

class DistStore final : public KVStore {
 public:
  using Options = DistStoreOptions;
  // `client` runs on `loop` and has joined the job.
  DistStore(Options options, std::shared_ptr<Client> client, std::shared_ptr<transport::Loop> loop,
            std::unique_ptr<collective::Reducer> reducer);

  using KVStore::PushRowSparse;
  using KVStore::RowSparsePull;
  std::string type() const override { return context_.options().type; }
  int rank() const override { return context_.rank(); }
  int num_workers() const override { return context_.options().num_workers; }
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
  void SetTimeout(std::chrono::milliseconds timeout) override { context_.SetTimeout(timeout); }
  void WaitAll(std::chrono::milliseconds timeout) override {
    context_.outstanding().Wait(context_.Timeout(timeout));
  }
  void Barrier(BarrierGroup group, std::chrono::milliseconds timeout) override;
  void Barrier(const std::vector<int>& ranks, std::chrono::milliseconds timeout) override;
  std::string Agree(const std::string& word, std::chrono::milliseconds timeout) override;
  int NumDeadNodes() override { return control_.NumDeadNodes(); }
  // Prepares for leaving the job: returns when the servers have everything that was pushed. Reads in
  // flight end with kCancelled. Throws the first failure that no call has thrown yet, and
  // kDeadlineExceeded after `timeout`.
  void Flush(Duration timeout);

 private:
  void DoInit(const std::vector<Key>& keys, const std::vector<NDArray>& values) override;
  void DoPush(const std::vector<Key>& keys, const std::vector<Values>& values,
              const PushOptions& options) override;
  void DoPull(const std::vector<Key>& keys, const std::vector<Values>& outs, int priority,
              bool latest) override;
  void DoPushPull(const std::vector<Key>& keys, const std::vector<Values>& values,
                  const std::vector<Values>& outs, const PushOptions& options) override;
  void DoSet(const std::vector<Key>& keys, const std::vector<NDArray>& values) override;

  // Makes the keys on all servers and in keys_. Waits.
  void Declare(const std::vector<InitArgs>& keys);
  // Waits until everything that was issued has been submitted to the client. Throws kDeadlineExceeded.
  void AwaitSubmitted(Duration timeout);

  StoreContext context_;
  ControlCalls control_;
  Mutex mutex_;
  StoreSettings settings_ SLUICE_GUARDED_BY(mutex_);
  StoreKeyTable keys_ SLUICE_GUARDED_BY(mutex_);
  Issuer issuer_ SLUICE_GUARDED_BY(mutex_);
  DenseKeys dense_keys_ SLUICE_GUARDED_BY(mutex_);
  RowSparseKeys row_sparse_keys_ SLUICE_GUARDED_BY(mutex_);
  OptimizerStates optimizer_states_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice::worker

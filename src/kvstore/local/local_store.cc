// LocalStore: the calls of the program, each of which goes to the part that does it.
//
// The program's threads call this. Calls that issue operations or wait for them first throw a failure of an
// earlier operation that no call has thrown yet (LocalContext::outstanding). mutex_ is held while a call
// enqueues its work, and while a program's updater runs on the caller's thread.
#include "kvstore/local/local_store.h"

#include "base/strings.h"
#include "kvstore/local/local_states.h"
#include "sluice/error.h"

namespace sluice::kvstore {

namespace {

std::unique_ptr<collective::Reducer> MakeReducer(const StoreType& type, int threads, Duration timeout) {
  if (type.nccl) return collective::MakeNcclReducer(timeout);
  return type.on_devices ? collective::MakeDeviceReducer() : collective::MakeHostReducer(threads);
}

}  // namespace

std::shared_ptr<KVStore> MakeLocalStore(const StoreType& type, int threads, Duration timeout) {
  return std::make_shared<LocalStore>(type.Name(), MakeReducer(type, threads, timeout));
}

LocalStore::LocalStore(std::string type, std::unique_ptr<collective::Reducer> reducer)
    : type_(std::move(type)),
      dense_keys_(context_, settings_, keys_, std::move(reducer)),
      row_sparse_keys_(context_, settings_, keys_) {}

Mutex& LocalStore::MutexForCall() {
  if (context_.updater_runner.RunsHere())
    throw Error(ErrorCode::kFailedPrecondition, "an updater may not call the store that calls it");
  return mutex_;
}

void LocalStore::DoInit(const std::vector<Key>& keys, const std::vector<NDArray>& values) {
  const MutexLock lock(MutexForCall());
  dense_keys_.Init(keys, values);
}

void LocalStore::DoPush(const std::vector<Key>& keys, const std::vector<Values>& values,
                        const PushOptions& options) {
  context_.outstanding.Check();
  const MutexLock lock(MutexForCall());
  dense_keys_.Push(keys, values, options);
}

void LocalStore::DoPull(const std::vector<Key>& keys, const std::vector<Values>& outs, int, bool) {
  context_.outstanding.Check();
  const MutexLock lock(MutexForCall());
  dense_keys_.Pull(keys, outs);
}

void LocalStore::DoPushPull(const std::vector<Key>& keys, const std::vector<Values>& values,
                            const std::vector<Values>& outs, const PushOptions& options) {
  context_.outstanding.Check();
  const MutexLock lock(MutexForCall());
  dense_keys_.PushPull(keys, values, outs, options);
}

void LocalStore::DoSet(const std::vector<Key>& keys, const std::vector<NDArray>& values) {
  context_.outstanding.Check();
  const MutexLock lock(MutexForCall());
  dense_keys_.Set(keys, values);
}

void LocalStore::InitRowSparse(const Key& key, const Shape& shape, DType dtype, const RowInit& init) {
  const MutexLock lock(MutexForCall());
  row_sparse_keys_.Init(key, shape, dtype, init);
}

void LocalStore::PushRowSparse(const Key& key, const std::vector<RowSparse>& gradients,
                               const PushOptions& options) {
  context_.outstanding.Check();
  const MutexLock lock(MutexForCall());
  row_sparse_keys_.Push(key, gradients, options);
}

void LocalStore::RowSparsePull(const Key& key, const std::vector<RowSparse>& outs, int) {
  context_.outstanding.Check();
  const MutexLock lock(MutexForCall());
  row_sparse_keys_.Pull(key, outs);
}

NDArray LocalStore::RowSparseIds(const Key& key) {
  context_.outstanding.Check();
  const MutexLock lock(MutexForCall());
  return row_sparse_keys_.Ids(key);
}

void LocalStore::SetRowSparse(const Key& key, const RowSparse& rows) {
  context_.outstanding.Check();
  const MutexLock lock(MutexForCall());
  row_sparse_keys_.Set(key, rows);
}

void LocalStore::SetOptimizer(const OptimizerConfig& config) {
  const MutexLock lock(MutexForCall());
  const UpdateRule rule{.optimizer = Optimizer::Create(config), .updater = nullptr};
  for (const auto& [name, key] : keys_.keys()) ValidateRule(rule, key.spec).OrThrow();
  settings_ = {rule, nullptr};
  for (auto& [name, key] : keys_.keys()) key.array_rule = nullptr;
}

void LocalStore::SetUpdater(Updater updater) {
  const MutexLock lock(MutexForCall());
  settings_.updater = std::move(updater);
}

void LocalStore::SetGradientCompression(const GradientCompression& compression) {
  RequireValid(compression);
  if (compression.type == Compression::kNone && compression.weights == Compression::kNone) return;
  throw Error(ErrorCode::kFailedPrecondition,
              StrCat("gradient compression ", Name(compression.type), ", weights ", Name(compression.weights),
                     ", on a store of type ", type_,
                     ": it saves bytes between machines, and this store sends none; use a dist store"));
}

void LocalStore::SaveOptimizerStates(const std::string& path) {
  WaitAll(kDefaultTimeout);
  const MutexLock lock(MutexForCall());
  SaveLocalStates(path, settings_.rule, keys_);
}

void LocalStore::LoadOptimizerStates(const std::string& path) {
  WaitAll(kDefaultTimeout);
  const MutexLock lock(MutexForCall());
  LoadLocalStates(path, settings_.rule, keys_);
}

uint64_t LocalStore::NumUpdates(const Key& key) {
  const MutexLock lock(MutexForCall());
  return static_cast<uint64_t>(keys_.Find("NumUpdates", key).num_updates);
}

void LocalStore::Barrier(const std::vector<int>& ranks, std::chrono::milliseconds) {
  RequireRanks(ranks, 0, 1);
  context_.outstanding.Check();
}

std::string LocalStore::Agree(const std::string& word, std::chrono::milliseconds) {
  RequireWord(word);
  context_.outstanding.Check();
  return word;
}

}  // namespace sluice::kvstore

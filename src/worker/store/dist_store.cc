// DistStore: the calls of the program, each of which goes to the part that does it.
//
// The program's threads call this. A call first throws a failure of an earlier operation that no call has
// thrown yet (StoreContext::outstanding). Calls on keys hold mutex_. Calls that wait for other workers hold
// it only to read or write a part; they first wait until everything issued so far has been submitted to the
// client.
#include "worker/store/dist_store.h"

#include "base/strings.h"
#include "base/tool_names.h"
#include "kvstore/row_calls.h"
#include "sluice/error.h"
#include "sluice/store_type.h"
#include "worker/store/declare.h"

namespace sluice::worker {

DistStore::DistStore(Options options, std::shared_ptr<Client> client, std::shared_ptr<transport::Loop> loop,
                     std::unique_ptr<collective::Reducer> reducer)
    : context_(std::move(options), std::move(client), std::move(loop)),
      control_(context_),
      issuer_(context_),
      dense_keys_(context_, settings_, keys_, issuer_, std::move(reducer)),
      row_sparse_keys_(context_, keys_, issuer_),
      optimizer_states_(context_, settings_, keys_) {}

void DistStore::DoInit(const std::vector<Key>& keys, const std::vector<NDArray>& values) {
  context_.outstanding().Check();
  Declare(DenseInits(context_, keys, values));
}

void DistStore::Declare(const std::vector<InitArgs>& keys) {
  const std::vector<wire::KeyEntry> made = worker::Declare(context_, keys);
  const MutexLock lock(mutex_);
  keys_.Add(made);
  if (Tracer* const tracer = context_.options().tracer; tracer != nullptr)
    for (const wire::KeyEntry& key : made) tracer->OnKey(key.id, ToString(key.spec.name));
}

void DistStore::DoPush(const std::vector<Key>& keys, const std::vector<Values>& values,
                       const PushOptions& options) {
  context_.outstanding().Check();
  const MutexLock lock(mutex_);
  dense_keys_.Push(keys, values, options);
}

void DistStore::DoPull(const std::vector<Key>& keys, const std::vector<Values>& outs, int priority,
                       bool latest) {
  context_.outstanding().Check();
  const MutexLock lock(mutex_);
  dense_keys_.Pull(latest ? "PullLatest" : "Pull", keys, outs, priority, latest);
}

void DistStore::DoPushPull(const std::vector<Key>& keys, const std::vector<Values>& values,
                           const std::vector<Values>& outs, const PushOptions& options) {
  context_.outstanding().Check();
  const MutexLock lock(mutex_);
  dense_keys_.PushPull(keys, values, outs, options);
}

void DistStore::DoSet(const std::vector<Key>& keys, const std::vector<NDArray>& values) {
  context_.outstanding().Check();
  const MutexLock lock(mutex_);
  dense_keys_.Set(keys, values);
}

void DistStore::InitRowSparse(const Key& key, const Shape& shape, DType dtype, const RowInit& init) {
  context_.outstanding().Check();
  kvstore::RequireTable(key, shape, dtype, init);
  Declare({{{key, dtype, shape, context_.options().number, init}, Frame()}});
}

void DistStore::PushRowSparse(const Key& key, const std::vector<RowSparse>& gradients,
                              const PushOptions& options) {
  context_.outstanding().Check();
  const MutexLock lock(mutex_);
  row_sparse_keys_.Push(key, gradients, options);
}

void DistStore::RowSparsePull(const Key& key, const std::vector<RowSparse>& outs, int priority) {
  context_.outstanding().Check();
  const MutexLock lock(mutex_);
  row_sparse_keys_.Pull(key, outs, priority);
}

NDArray DistStore::RowSparseIds(const Key& key) {
  context_.outstanding().Check();
  const MutexLock lock(mutex_);
  return row_sparse_keys_.Ids(key);
}

void DistStore::SetRowSparse(const Key& key, const RowSparse& rows) {
  context_.outstanding().Check();
  const MutexLock lock(mutex_);
  row_sparse_keys_.Set(key, rows);
}

void DistStore::SetOptimizer(const OptimizerConfig& config) {
  context_.outstanding().Check();
  std::shared_ptr<const Optimizer> optimizer =
      Optimizer::Create(StoreType::Parse(type()).async ? ResolvedForAsync(config, num_workers()) : config);
  const Duration timeout = context_.Timeout();
  AwaitSubmitted(timeout);  // the optimiser governs the rounds after everything pushed so far
  control_.SetOptimizer(optimizer->config(), timeout);
  const MutexLock lock(mutex_);
  settings_.optimizer = std::move(optimizer);
}

void DistStore::SetUpdater(Updater) {
  throw Error(ErrorCode::kFailedPrecondition,
              StrCat("SetUpdater works on local stores; for dist stores write a server program "
                     "(sluice/server.h) and start it with --server-command of ",
                     LaunchTool()));
}

void DistStore::SetGradientCompression(const GradientCompression& compression) {
  context_.outstanding().Check();
  kvstore::RequireValid(compression);
  const MutexLock lock(mutex_);
  settings_.compression = compression;
}

void DistStore::SaveOptimizerStates(const std::string& path) {
  WaitAll(kDefaultTimeout);
  if (rank() != 0) return;
  const MutexLock lock(mutex_);
  optimizer_states_.Save(path);
}

void DistStore::LoadOptimizerStates(const std::string& path) {
  WaitAll(kDefaultTimeout);
  if (rank() != 0) return;
  const MutexLock lock(mutex_);
  optimizer_states_.Load(path);
}

uint64_t DistStore::NumUpdates(const Key& key) {
  context_.outstanding().Check();
  const MutexLock lock(mutex_);
  return optimizer_states_.NumUpdates(key);
}

void DistStore::AwaitSubmitted(Duration timeout) {
  std::vector<Event> waiting;
  {
    const MutexLock lock(mutex_);
    waiting = issuer_.Unsubmitted();
  }
  kvstore::AwaitAll(waiting, timeout);
}

void DistStore::Barrier(BarrierGroup group, std::chrono::milliseconds timeout) {
  const Duration limit = control_.BarrierTimeout(timeout);
  context_.outstanding().Check();
  AwaitSubmitted(limit);
  control_.Barrier(group, limit);
}

void DistStore::Barrier(const std::vector<int>& ranks, std::chrono::milliseconds timeout) {
  std::vector<uint32_t> members = kvstore::RequireRanks(ranks, rank(), num_workers());
  const Duration limit = control_.BarrierTimeout(timeout);
  context_.outstanding().Check();
  AwaitSubmitted(limit);
  control_.Barrier(std::move(members), limit);
}

std::string DistStore::Agree(const std::string& word, std::chrono::milliseconds timeout) {
  kvstore::RequireWord(word);
  const Duration limit = control_.BarrierTimeout(timeout);
  context_.outstanding().Check();
  AwaitSubmitted(limit);
  return control_.Agree(word, limit);
}

void DistStore::Flush(Duration timeout) {
  AwaitSubmitted(timeout);
  control_.Flush(timeout);
}

}  // namespace sluice::worker

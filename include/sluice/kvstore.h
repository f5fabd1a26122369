// The KVStore: named arrays that workers push gradients to and pull weights from.
//
//   auto kv = sluice::KVStore::Create("dist_sync");
//   kv->Init("w", weight);                 // rank 0's value wins
//   kv->SetOptimizer({.kind = sluice::OptimizerKind::kSgd, .learning_rate = 0.1});
//   kv->Push("w", gradient);               // returns at once
//   kv->Pull("w", &weight);                // returns at once; using `weight` waits for it
//
// There are seven types of store. local, device and nccl serve one process and sum gradients on the host, on
// the devices or by NCCL on the GPUs. In dist_sync and dist_device_sync a round of a key closes when every
// live worker has pushed the key. In dist_async and dist_device_async every push is applied when it arrives.
// docs/kvstore.md compares the types. Below, "dist" means the last four of them, "sync" and "async" two each.
//
// Each store has keys and an optimiser of its own. All workers of a job make the same dist stores in the same
// order: the n-th store of one worker is the n-th store of all others. Keys live as long as the job.
//
// Asynchrony: Push, Pull and PushPull return before they are done, and arrays carry the dependencies: the
// caller need not wait for an array that it has pushed, and the use of a pulled array waits for the pull.
// Operations of one worker on one key keep their order. If an operation fails, the next wait on its array or
// the next call on the store throws sluice::Error, which names the key, the operation and the cause.
//
// Thread safety: all methods may be called from several threads. If the order of calls from different threads
// matters, the caller has to establish it.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sluice/array_list.h"
#include "sluice/barrier.h"
#include "sluice/compression.h"
#include "sluice/error.h"
#include "sluice/key.h"
#include "sluice/ndarray.h"
#include "sluice/optimizer.h"
#include "sluice/row_init.h"
#include "sluice/row_sparse.h"

namespace sluice {

struct PushOptions {
  int priority = 0;  // higher goes first
  // The number of samples that the gradient sums over; used with OptimizerConfig::normalize_by_samples.
  uint64_t samples = 0;
  // The gradient, summed over all workers, is divided by this. It is the same on all workers in a round.
  double divisor = 1;
  // Sends the values as they are, whatever compression is set; for pushes of values that are not gradients.
  bool uncompressed = false;
};

namespace internal {

// What a store implements of the calls on dense keys. Those of KVStore take keys and arrays in many notations
// and bring them into this form: values[i] are the arrays of keys[i], one for each device.
class DenseCalls {
 protected:
  using Values = std::vector<NDArray>;
  ~DenseCalls() = default;
  virtual void DoInit(const std::vector<Key>& keys, const std::vector<NDArray>& values) = 0;
  virtual void DoPush(const std::vector<Key>& keys, const std::vector<Values>& values,
                      const PushOptions& options) = 0;
  // With `latest` the call is PullLatest.
  virtual void DoPull(const std::vector<Key>& keys, const std::vector<Values>& outs, int priority,
                      bool latest) = 0;
  // Without `outs`, `values` are the outputs.
  virtual void DoPushPull(const std::vector<Key>& keys, const std::vector<Values>& values,
                          const std::vector<Values>& outs, const PushOptions& options) = 0;
  virtual void DoSet(const std::vector<Key>& keys, const std::vector<NDArray>& values) = 0;
  void DoBroadcast(const std::vector<Key>& keys, const std::vector<NDArray>& values,
                   const std::vector<Values>& outs);
};

}  // namespace internal

class KVStore : protected internal::DenseCalls {
 public:
  using Values = std::vector<NDArray>;  // one key's arrays, one per device
  // Computes the new weight of `key` from the summed gradient, divided by PushOptions::divisor, and writes it
  // to `weight`, the store's own copy, in place.
  using Updater = std::function<void(const Key& key, const NDArray& gradient, NDArray& weight)>;

  // Makes a store of the default Runtime. `type` is one of the seven names above or an alias of one
  // (sluice/store_type.h), in upper or lower case; for any other name Create throws Error(kInvalidArgument),
  // which lists the types. Create is defined in src/runtime/.
  static std::shared_ptr<KVStore> Create(const std::string& type);

  virtual ~KVStore() = default;

  virtual std::string type() const = 0;  // one of the seven names, also where Create was given an alias
  virtual int rank() const = 0;
  virtual int num_workers() const = 0;

  // Creates the keys of the call, all of them or none. A key's name is UTF-8 of at most 64 KiB. On dist
  // stores Init returns once the key exists on every server; rank 0's value becomes the key's value, and a
  // pull before the first push returns it. Init is not a barrier. It throws Error(kAlreadyExists) when
  // another worker has created the key with another shape or dtype, and names both; stores of one process
  // also throw it for a key that exists already.
  //
  // This call and those below take one key with its arrays (sluice/array_list.h), or a list of keys with the
  // arrays of each. Overload resolution prefers the call for one key where both would accept the arguments:
  // {"w"} with {x, y} is one key with two arrays.
  void Init(const Key& key, const NDArray& value) { Init(std::vector(1, key), value); }
  template <internal::Keys Keys = KeyList>
  void Init(const Keys& keys, const ArrayList& values) {
    DoInit(KeyList(keys).keys(), values.arrays());
  }

  // Pushes the gradients values[i] of keys[i] and returns at once. The arrays of one key are summed over
  // devices, and over repetitions of the key in this call.
  void Push(const Key& key, const ArrayList& values, const PushOptions& options = {}) {
    DoPush(std::vector(1, key), std::vector(1, values.arrays()), options);
  }
  void Push(const Key& key, const ArrayList& values, int priority) {
    Push(key, values, PushOptions{.priority = priority});
  }
  template <internal::Keys Keys = KeyList>
  void Push(const Keys& keys, const ArrayLists& values, const PushOptions& options = {}) {
    DoPush(KeyList(keys).keys(), values.lists(), options);
  }
  template <internal::Keys Keys = KeyList>
  void Push(const Keys& keys, const ArrayLists& values, int priority) {
    Push(keys, values, PushOptions{.priority = priority});
  }

  // Writes the key's value into every output and returns at once; the first use of an output waits for the
  // value. NDArrays are handles, so outputs that are taken by value share their storage with the caller's.
  void Pull(const Key& key, const ArrayList& outs, int priority = 0) {
    DoPull(std::vector(1, key), std::vector(1, outs.arrays()), priority, false);
  }
  template <internal::Keys Keys = KeyList>
  void Pull(const Keys& keys, const ArrayLists& outs, int priority = 0) {
    DoPull(KeyList(keys).keys(), outs.lists(), priority, false);
  }
  // Pulls the newest version whose round has closed, without waiting for the rounds that this worker has
  // pushed. It is for clients that never push.
  void PullLatest(const Key& key, const ArrayList& outs, int priority = 0) {
    DoPull(std::vector(1, key), std::vector(1, outs.arrays()), priority, true);
  }
  template <internal::Keys Keys = KeyList>
  void PullLatest(const Keys& keys, const ArrayLists& outs, int priority = 0) {
    DoPull(KeyList(keys).keys(), outs.lists(), priority, true);
  }

  // Pushes `values`, then pulls the result of the round into `outs`, or into `values` themselves when `outs`
  // is empty.
  void PushPull(const Key& key, const ArrayList& values, const ArrayList& outs = {},
                const PushOptions& options = {}) {
    DoPushPull(std::vector(1, key), std::vector(1, values.arrays()),
               std::vector(outs.empty() ? 0 : 1, outs.arrays()), options);
  }
  // A null pointer as output means `values` as well.
  void PushPull(const Key& key, const ArrayList& values, NDArray* out, const PushOptions& options = {}) {
    PushPull(key, values, out == nullptr ? ArrayList() : ArrayList(out), options);
  }
  void PushPull(const Key& key, const ArrayList& values, const PushOptions& options) {
    PushPull(key, values, ArrayList(), options);
  }
  template <internal::Keys Keys = KeyList>
  void PushPull(const Keys& keys, const ArrayLists& values, const ArrayLists& outs = {},
                const PushOptions& options = {}) {
    DoPushPull(KeyList(keys).keys(), values.lists(), outs.lists(), options);
  }
  template <internal::Keys Keys = KeyList, std::same_as<PushOptions> Options = PushOptions>
  void PushPull(const Keys& keys, const ArrayLists& values, const Options& options) {
    DoPushPull(KeyList(keys).keys(), values.lists(), {}, options);
  }

  // Overwrites the key's value outside of any round, and returns at once, like Push. The pushes that this
  // worker made before Set are applied before it, and its next push is applied to the new value. The states
  // of the optimiser stay as they are. A key may occur once in a call.
  //
  // On dist stores rank 0's value counts. A sync store applies the whole next round, with the pushes of all
  // workers, to the new value; an async store applies the pushes of other workers to it once it has arrived.
  // Other workers may call Set as well, with any value of that shape: their call completes when rank 0's
  // value has arrived at the servers, and their later operations on the key wait for it. In a sync store rank
  // 0 must call Set before the same round, else the other worker's Set fails with kFailedPrecondition. In an
  // async store the other worker's n-th Set waits for rank 0's n-th, and fails with kDeadlineExceeded if
  // there is none. A worker that does not call Set may pull the old or the new value until the next round; to
  // be certain of the new one, rank 0 calls WaitAll, and then all workers call Barrier. An async store sets a
  // large value part by part, so that a pull may find a mixture.
  void Set(const Key& key, const NDArray& value) { Set(std::vector(1, key), value); }
  template <internal::Keys Keys = KeyList>
  void Set(const Keys& keys, const ArrayList& values) {
    DoSet(KeyList(keys).keys(), values.arrays());
  }
  // Calls Init, then Pull into the outputs. Arguments that Pull would refuse are refused before Init.
  void Broadcast(const Key& key, const NDArray& value, const ArrayList& outs) {
    DoBroadcast(std::vector(1, key), std::vector(1, value), std::vector(1, outs.arrays()));
  }
  template <internal::Keys Keys = KeyList>
  void Broadcast(const Keys& keys, const ArrayList& values, const ArrayLists& outs) {
    DoBroadcast(KeyList(keys).keys(), values.arrays(), outs.lists());
  }

  // --- Row-sparse keys ---
  //
  // A row-sparse key is a table of which a step touches few rows, such as the embeddings of a vocabulary. No
  // operation passes over the whole table, and a row takes memory only once it has been pushed
  // (docs/design/sparse.md). Push, Pull, PushPull, Set and Broadcast refuse these keys, and the methods of
  // this section refuse all others. A call reads the ids before it returns; for an id outside the table it
  // throws Error(kInvalidArgument), which names the id, and has no effect.

  // Creates a table of shape {rows, ...}. All workers call it with the same arguments; a worker whose
  // arguments differ gets Error(kAlreadyExists), which names both. The call returns once every server knows
  // the key; the table itself is not sent.
  virtual void InitRowSparse(const Key& key, const Shape& shape, DType dtype = DType::kFloat32,
                             const RowInit& init = {}) = 0;
  // Updates the rows that are pushed with their gradients, summed over devices, repetitions of an id and
  // workers. All other rows, and their optimiser states, stay as they are (MXNet's lazy_update). Otherwise
  // this is a Push: the call is one round of the key, to which every worker has to push, if need be without
  // ids. Without an optimiser the sum is assigned to the rows. Rows are sent uncompressed. Dist stores throw
  // Error(kResourceExhausted) for more rows than the servers accept in one round.
  void PushRowSparse(const Key& key, const RowSparse& gradient, const PushOptions& options = {}) {
    PushRowSparse(key, std::vector<RowSparse>{gradient}, options);
  }
  virtual void PushRowSparse(const Key& key, const std::vector<RowSparse>& gradients,
                             const PushOptions& options = {}) = 0;
  // Pointers in braces would be taken for a range.
  template <size_t n>
  void PushRowSparse(const Key& key, const RowSparse* const (&gradients)[n],
                     const PushOptions& options = {}) = delete;
  // Writes row ids[i] of the table into row i of `rows`, in each of the outputs; an id that occurs several
  // times is answered each time. The order of operations and the version are those of Pull.
  void RowSparsePull(const Key& key, const NDArray& ids, NDArray* rows, int priority = 0) {
    RowSparsePull(key, std::vector<RowSparse>{{ids, internal::ArrayAt(rows)}}, priority);
  }
  template <std::same_as<NDArray> Array>
  void RowSparsePull(const Key& key, const NDArray& ids, Array& rows, int priority = 0) {
    RowSparsePull(key, ids, &rows, priority);
  }
  virtual void RowSparsePull(const Key& key, const std::vector<RowSparse>& outs, int priority = 0) = 0;
  template <size_t n>
  void RowSparsePull(const Key& key, const RowSparse* const (&outs)[n], int priority = 0) = delete;
  // Waits until the round of this worker's last push has closed, and returns the ids of all rows that have
  // been pushed or set: int64 {n}, ascending. These are the rows to pull in order to save a table.
  virtual NDArray RowSparseIds(const Key& key) = 0;
  // Overwrites rows, for example with those of a table that was saved, outside of any round, and waits until
  // that is done. Optimiser states stay as they are. An id may occur once. On dist stores rank 0's call
  // counts, and the other workers' calls return at once. A sync store applies the next round to these rows:
  // rank 0 must not push before its call has returned. In an async store no worker may, which a Barrier after
  // the call makes certain; a push in between may be overwritten.
  virtual void SetRowSparse(const Key& key, const RowSparse& rows) = 0;

  // From this call on the store updates the weights (update_on_kvstore). On dist stores rank 0's call counts.
  // The other workers' calls return at once in sync stores; in async stores they wait until rank 0 has set an
  // optimiser, so that no push arrives before it. The configuration takes effect at the same round on every
  // key and server. SetOptimizer may be called again to change anything, for example the learning rate. A
  // rate and a momentum that are not set are those of Resolved (sluice/optimizer.h), in async stores those of
  // ResolvedForAsync. SetOptimizer throws Error(kInvalidArgument), which names the invalid field.
  virtual void SetOptimizer(const OptimizerConfig& config) = 0;
  // Sets a function of the program's own that updates the weights; Push calls it. An empty function removes
  // it. The function must not call the store; if it throws, Push throws an Error. It writes `weight` in place
  // or assigns to it; an array that is assigned is copied. PushRowSparse calls the function with the rows
  // that were pushed and their summed gradients: both arrays are {n, ...} and have each row once, by
  // ascending row number. No other row changes, and PushRowSparse then waits for the gradients. Only the
  // stores of one process support an updater; for dist stores write a server program (sluice/server.h).
  virtual void SetUpdater(Updater updater) = 0;

  // Sets how, from this call on, pushes encode gradients of float32, float16 and bfloat16 (after their sum
  // over this worker's devices), and how weights come back (sluice/compression.h). Init is not compressed.
  // Each worker may choose its own compression. When compression is switched off, each key's next push sends
  // what the key's residual holds; what residuals hold when the process ends is lost. The call throws
  // Error(kInvalidArgument), which names the invalid field, and Error(kFailedPrecondition) for any
  // compression on stores of one process, which send nothing.
  virtual void SetGradientCompression(const GradientCompression& compression) = 0;

  // Write and read the optimiser states of all keys as a safetensors file. Its entries are named
  // "<key>/<slot>"; a row-sparse key has states for the rows that its entry "<key>/rows" lists. The file also
  // has the number of updates of each key, from which schedules compute the learning rate. A store of any
  // type can read what a store of any type has written. On dist stores rank 0 gathers the states from the
  // servers and writes the file, or reads it. No worker may push until rank 0 has loaded the file, which a
  // Barrier after the call makes certain.
  virtual void SaveOptimizerStates(const std::string& path) = 0;
  virtual void LoadOptimizerStates(const std::string& path) = 0;

  // Waits until the round of this worker's last push has closed, and returns how many updates the key's
  // optimiser has made. Learning-rate schedules count these updates; in async stores they divide the number
  // by the number of workers.
  virtual uint64_t NumUpdates(const Key& key) = 0;

  // Sets how long later calls wait for other processes. This holds for the operations that pull (Pull,
  // PushPull, ...), where each key's time starts when its arrays are ready and includes the wait for earlier
  // operations on the key, and for the calls that return once other processes have acted (Init, SetOptimizer,
  // Barrier, ...). An operation that is not done in time fails with kDeadlineExceeded, which names the
  // processes that it waited for. The default is SLUICE_OPERATION_TIMEOUT, or ten minutes where that is not
  // set. With kNoTimeout an operation waits as long as the other processes are alive (PS_HEARTBEAT_TIMEOUT).
  // Stores of one process wait for no other process; they have no limit by default. The call throws
  // Error(kInvalidArgument) unless `timeout` is positive.
  virtual void SetTimeout(std::chrono::milliseconds timeout) = 0;

  // Waits until all operations issued so far are done, and throws the first failure that no call has thrown
  // yet. It throws Error(kDeadlineExceeded) when `timeout` has passed; the next WaitAll then waits for the
  // operations that are left.
  virtual void WaitAll(std::chrono::milliseconds timeout = kDefaultTimeout) = 0;
  // Waits until every member of `group` has called Barrier as often as this worker. It throws
  // Error(kDeadlineExceeded), which names the missing members, and Error(kInvalidArgument) for kServers on
  // dist stores, since a worker is no member of that group. A server takes part in kAll when its program
  // calls ServerNode::Barrier (sluice/server.h); stock servers do not. A store of one process is the only
  // member of its barriers. A call that throws the failure of an earlier operation does not count as a
  // barrier; a call that ends at its deadline does.
  virtual void Barrier(BarrierGroup group = BarrierGroup::kWorkers,
                       std::chrono::milliseconds timeout = kDefaultTimeout) = 0;
  // The same among the workers with these ranks, which may be listed in any order. Barriers are counted for
  // each set of ranks separately. Throws Error(kInvalidArgument) when this worker is not listed or a rank
  // does not exist.
  virtual void Barrier(const std::vector<int>& ranks,
                       std::chrono::milliseconds timeout = kDefaultTimeout) = 0;
  // A barrier of all workers that returns rank 0's `word` to each of them. It is for decisions that all
  // workers must take alike, such as where to resume or when to stop. It throws as Barrier does, and throws
  // Error(kInvalidArgument) for a text of more than 64 KiB. A store of one process returns its own `word`.
  virtual std::string Agree(const std::string& word, std::chrono::milliseconds timeout = kDefaultTimeout) = 0;
  // Returns how many nodes of the job, workers, servers and the scheduler together, have been found dead so
  // far. It still answers after a death has ended the job, when all other calls throw.
  virtual int NumDeadNodes() = 0;

  // As a timeout argument: the timeout that SetTimeout has set.
  static constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::milliseconds::min();
  static constexpr std::chrono::milliseconds kNoTimeout = std::chrono::milliseconds::max();
};

}  // namespace sluice

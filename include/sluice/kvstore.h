// The KVStore: named arrays that workers push gradients to and pull weights from.
//
//   auto kv = sluice::KVStore::Create("dist_sync");
//   kv->Init("w", weight);                 // rank 0's value wins
//   kv->SetOptimizer({.kind = sluice::OptimizerKind::kSgd, .learning_rate = 0.1});
//   kv->Push("w", gradient);               // returns at once
//   kv->Pull("w", &weight);                // returns at once; using `weight` waits for it
//
// Types: local, device (one process, sums on the host or on the devices); dist_sync, dist_device_sync (a
// round of a key closes when every live worker has pushed it); dist_async, dist_device_async (every push is
// applied when it arrives). docs/kvstore.md tells each apart.
//
// Each store has keys and an optimiser of its own. All workers of a job make the same dist stores in the same
// order: the n-th of one worker is the n-th of all others. Keys live as long as the job.
//
// Asynchrony: Push, Pull and PushPull return before they are done; arrays carry the order (a pushed array
// must not be waited for, a pulled one is waited for where it is used). Operations of one worker on one key
// keep their order. A failed operation is thrown, as sluice::Error with key, operation and cause, by the next
// wait on its array or by the next call on the store.
//
// Thread safety: all methods may be called from several threads; the order of calls from different threads is
// theirs to define.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <string>
#include <vector>

#include "sluice/barrier.h"
#include "sluice/compression.h"
#include "sluice/error.h"
#include "sluice/key.h"
#include "sluice/ndarray.h"
#include "sluice/optimizer.h"
#include "sluice/row_init.h"

namespace sluice {

struct PushOptions {
  int priority = 0;  // higher goes first
  uint64_t samples =
      0;  // how many samples the gradient sums over (used with OptimizerConfig::normalize_by_samples)
  double divisor =
      1;  // what the summed gradient of all workers is divided by; the same on all workers in a round
  // Sends the numbers as they are, whatever compression is set: of what is no gradient.
  bool uncompressed = false;
};

// Some rows of a table of shape {rows, ...}.
struct RowSparse {
  // Row numbers, int64 or int32, of any shape (of [batch, steps] words, say) and in any order; one may come
  // several times, and there may be none.
  NDArray ids;
  // The ids' shape and then a row's: rows[i] is of row ids[i], and of ids {n} that is {n, ...}.
  NDArray rows;
};

namespace internal {
template <typename Range, typename T>
concept RangeOf = std::ranges::input_range<const Range> &&
    std::convertible_to<std::ranges::range_reference_t<const Range>, T>;
}  // namespace internal

// The arrays of a call's keys as they are written: {x, y} has one for each key, {{x0, x1}, {y0, y1}} one for
// each key and device; or a range of arrays, or of lists of arrays.
class ArrayLists {
 public:
  using Values = std::vector<NDArray>;

  ArrayLists() = default;
  ArrayLists(std::initializer_list<NDArray> arrays) {
    for (const NDArray& array : arrays) lists_.push_back({array});
  }
  ArrayLists(std::initializer_list<Values> lists) : lists_(lists) {}
  // Null is an array that was never made, which every call refuses.
  template <internal::RangeOf<const NDArray*> Range>
  ArrayLists(const Range& arrays) {  // NOLINT: implicit on purpose
    for (const NDArray* array : arrays) lists_.push_back({array == nullptr ? NDArray() : *array});
  }
  template <internal::RangeOf<NDArray> Range>
  ArrayLists(const Range& arrays) {  // NOLINT: implicit on purpose
    for (const NDArray& array : arrays) lists_.push_back({array});
  }
  template <internal::RangeOf<Values> Range>
  ArrayLists(const Range& lists) {  // NOLINT: implicit on purpose
    for (const Values& list : lists) lists_.push_back(list);
  }
  const std::vector<Values>& lists() const { return lists_; }

 private:
  std::vector<Values> lists_;
};

class KVStore {
 public:
  using Values = std::vector<NDArray>;  // one key's arrays, one per device
  // new weight = f(key, summed gradient, weight), on the store's own copy: writes `weight` in place.
  using Updater = std::function<void(const Key& key, const NDArray& gradient, NDArray& weight)>;

  // The store of `type`, of the default Runtime: one of the names above or another one of the same type
  // (sluice/store_type.h), in upper or lower case. Throws Error(kInvalidArgument) that lists the types.
  // Defined in runtime/.
  static std::shared_ptr<KVStore> Create(const std::string& type);

  virtual ~KVStore() = default;

  virtual std::string type() const = 0;  // the name above, whichever was given to Create
  virtual int rank() const = 0;
  virtual int num_workers() const = 0;

  // Makes the key; all keys of a call or none. A name is UTF-8 of at most 64 KiB. Dist: returns once the key
  // exists on every server; rank 0's value wins and is what a pull before the first push returns. Not a
  // barrier. Throws kAlreadyExists (naming both) when another worker made it with another shape or dtype; on
  // local stores also for a repeated key.
  void Init(const Key& key, const NDArray& value) { Init(std::vector<Key>{key}, std::vector{value}); }
  virtual void Init(const std::vector<Key>& keys, const std::vector<NDArray>& values) = 0;
  // As all templates of this class: what is not the call above as it stands. Where both would do, the
  // compiler takes the one that is no template.
  template <internal::Keys Keys = KeyList>
  void Init(const Keys& keys, const std::vector<NDArray>& values) {
    Init(KeyList(keys).keys(), values);
  }

  // values[i] are the arrays of keys[i]: they are summed, over devices and over repeats of a key in this
  // call.
  void Push(const Key& key, const NDArray& value, const PushOptions& options = {}) {
    Push(std::vector<Key>{key}, std::vector<Values>{{value}}, options);
  }
  void Push(const Key& key, const Values& values, const PushOptions& options = {}) {
    Push(std::vector<Key>{key}, std::vector<Values>{values}, options);
  }
  virtual void Push(const std::vector<Key>& keys, const std::vector<Values>& values,
                    const PushOptions& options = {}) = 0;
  void Push(std::initializer_list<Key> keys, std::initializer_list<Values> values,
            const PushOptions& options = {}) {
    Push(std::vector<Key>(keys), values, options);
  }
  template <internal::Keys Keys = KeyList>
  void Push(const Keys& keys, const ArrayLists& values, const PushOptions& options = {}) {
    Push(KeyList(keys).keys(), values.lists(), options);
  }

  // Writes the key's value into every output (arrays are handles: they are taken by value and share storage).
  void Pull(const Key& key, NDArray* out, int priority = 0) {
    Pull(std::vector<Key>{key}, std::vector<Values>{{Of(out, "Pull", key)}}, priority);
  }
  template <std::same_as<NDArray> Array>
  void Pull(const Key& key, Array& out, int priority = 0) {
    Pull(key, &out, priority);
  }
  void Pull(const Key& key, const Values& outs, int priority = 0) {
    Pull(std::vector<Key>{key}, std::vector<Values>{outs}, priority);
  }
  virtual void Pull(const std::vector<Key>& keys, const std::vector<Values>& outs, int priority = 0) = 0;
  void Pull(std::initializer_list<Key> keys, std::initializer_list<Values> outs, int priority = 0) {
    Pull(std::vector<Key>(keys), outs, priority);
  }
  template <internal::Keys Keys = KeyList>
  void Pull(const Keys& keys, const ArrayLists& outs, int priority = 0) {
    Pull(KeyList(keys).keys(), outs.lists(), priority);
  }
  template <internal::Keys Keys = internal::Braces, size_t n>
  requires internal::Several<Keys, n>
  void Pull(const Keys& keys, NDArray* const (&outs)[n], int priority = 0) {
    Pull(KeyList(keys).keys(), ArrayLists(outs).lists(), priority);
  }
  // The newest closed version, whatever this worker has pushed. For clients that never push.
  void PullLatest(const Key& key, NDArray* out, int priority = 0) {
    PullLatest(std::vector<Key>{key}, std::vector<Values>{{Of(out, "PullLatest", key)}}, priority);
  }
  template <std::same_as<NDArray> Array>
  void PullLatest(const Key& key, Array& out, int priority = 0) {
    PullLatest(key, &out, priority);
  }
  virtual void PullLatest(const std::vector<Key>& keys, const std::vector<Values>& outs,
                          int priority = 0) = 0;
  void PullLatest(std::initializer_list<Key> keys, std::initializer_list<Values> outs, int priority = 0) {
    PullLatest(std::vector<Key>(keys), outs, priority);
  }
  template <internal::Keys Keys = KeyList>
  void PullLatest(const Keys& keys, const ArrayLists& outs, int priority = 0) {
    PullLatest(KeyList(keys).keys(), outs.lists(), priority);
  }
  template <internal::Keys Keys = internal::Braces, size_t n>
  requires internal::Several<Keys, n>
  void PullLatest(const Keys& keys, NDArray* const (&outs)[n], int priority = 0) {
    PullLatest(KeyList(keys).keys(), ArrayLists(outs).lists(), priority);
  }

  // Push, then pull of the round's result; into `values` themselves when `outs` is empty.
  void PushPull(const Key& key, const NDArray& value, NDArray* out = nullptr,
                const PushOptions& options = {}) {
    PushPull(std::vector<Key>{key}, std::vector<Values>{{value}},
             out == nullptr ? std::vector<Values>{} : std::vector<Values>{{*out}}, options);
  }
  template <std::same_as<NDArray> Array>
  void PushPull(const Key& key, const NDArray& value, Array& out, const PushOptions& options = {}) {
    PushPull(key, value, &out, options);
  }
  void PushPull(const Key& key, const NDArray& value, const PushOptions& options) {
    PushPull(key, value, nullptr, options);
  }
  template <std::convertible_to<Key> OneKey>
  void PushPull(const OneKey& key, const NDArray& value) {
    PushPull(Key(key), value, nullptr, {});
  }
  template <std::convertible_to<Key> OneKey>
  void PushPull(const OneKey& key, const Values& values, const ArrayLists& outs = {},
                const PushOptions& options = {}) {
    Values all;
    for (const Values& list : outs.lists()) all.insert(all.end(), list.begin(), list.end());
    PushPull(std::vector<Key>{key}, std::vector<Values>{values},
             all.empty() ? std::vector<Values>{} : std::vector<Values>{all}, options);
  }
  template <std::convertible_to<Key> OneKey, std::same_as<PushOptions> Options = PushOptions>
  void PushPull(const OneKey& key, const Values& values, const Options& options) {
    PushPull(key, values, ArrayLists(), options);
  }
  virtual void PushPull(const std::vector<Key>& keys, const std::vector<Values>& values,
                        const std::vector<Values>& outs = {}, const PushOptions& options = {}) = 0;
  template <internal::Keys Keys = KeyList>
  void PushPull(const Keys& keys, const ArrayLists& values, const ArrayLists& outs = {},
                const PushOptions& options = {}) {
    PushPull(KeyList(keys).keys(), values.lists(), outs.lists(), options);
  }
  template <internal::Keys Keys = KeyList, std::same_as<PushOptions> Options = PushOptions>
  void PushPull(const Keys& keys, const ArrayLists& values, const Options& options) {
    PushPull(KeyList(keys).keys(), values.lists(), std::vector<Values>{}, options);
  }
  template <internal::Keys Keys = internal::Braces, size_t n>
  requires internal::Several<Keys, n>
  void PushPull(const Keys& keys, const ArrayLists& values, NDArray* const (&outs)[n],
                const PushOptions& options = {}) {
    PushPull(KeyList(keys).keys(), values.lists(), ArrayLists(outs).lists(), options);
  }
  // Writes the key's value, in no round: what this worker pushed before is done with, and what it pushes
  // next, and in sync stores what anybody does, goes on from this value. Optimiser states stay. Returns at
  // once, like Push. Dist: rank 0's value counts. The others may call it as well, with any value of that
  // shape: theirs is done, and what they issue later on the key goes on, when rank 0's value is there. In
  // sync stores rank 0 has to set it before the same round, else theirs fails with kFailedPrecondition; in
  // async stores as often, and theirs fails with kDeadlineExceeded. Who does not call it may pull either
  // value until the next round (a Barrier tells); an async store takes the parts of a large one one by one. A
  // key may come once.
  void Set(const Key& key, const NDArray& value) { Set(std::vector<Key>{key}, std::vector{value}); }
  virtual void Set(const std::vector<Key>& keys, const std::vector<NDArray>& values) = 0;
  template <internal::Keys Keys = KeyList>
  void Set(const Keys& keys, const std::vector<NDArray>& values) {
    Set(KeyList(keys).keys(), values);
  }
  // Init, then Pull into the outputs. Arguments that Pull would refuse are refused before Init.
  void Broadcast(const std::vector<Key>& keys, const std::vector<NDArray>& values,
                 const std::vector<Values>& outs);
  void Broadcast(const Key& key, const NDArray& value, NDArray* out) {
    Broadcast(std::vector<Key>{key}, std::vector{value}, std::vector<Values>{{Of(out, "Broadcast", key)}});
  }
  template <std::same_as<NDArray> Array>
  void Broadcast(const Key& key, const NDArray& value, Array& out) {
    Broadcast(key, value, &out);
  }
  void Broadcast(const Key& key, const NDArray& value, const Values& outs) {
    Broadcast(std::vector<Key>{key}, std::vector{value}, std::vector<Values>{outs});
  }
  template <internal::Keys Keys = KeyList>
  void Broadcast(const Keys& keys, const std::vector<NDArray>& values, const ArrayLists& outs) {
    Broadcast(KeyList(keys).keys(), values, outs.lists());
  }
  template <internal::Keys Keys = internal::Braces, size_t n>
  requires internal::Several<Keys, n>
  void Broadcast(const Keys& keys, const std::vector<NDArray>& values, NDArray* const (&outs)[n]) {
    Broadcast(KeyList(keys).keys(), values, ArrayLists(outs).lists());
  }

  // --- Row-sparse keys: tables of which a step touches few rows, such as the embeddings of a vocabulary. No
  // pass over the whole table is ever made, and a row takes memory once it has been pushed
  // (docs/design/sparse.md). Push, Pull and their like are not for these keys, nor these for others. Ids are
  // read when the call is made; one outside the table is kInvalidArgument that names it, and nothing has
  // happened. ---

  // Makes a table of this shape, {rows, ...}. All workers call it with the same arguments: who differs gets
  // kAlreadyExists naming both. Returns once every server knows the key; no bytes of the table travel.
  virtual void InitRowSparse(const Key& key, const Shape& shape, DType dtype = DType::kFloat32,
                             const RowInit& init = {}) = 0;
  // The rows' sum over devices, over repeats of an id and over workers updates those rows; all others, and
  // their optimiser states, stay as they are (MXNet's lazy_update). Otherwise as Push: one round of the key,
  // which every worker has to push, if with no ids. Without an optimiser the sum is assigned to its rows.
  // Rows travel uncompressed. Dist: kResourceExhausted for more of them than servers take in one round.
  void PushRowSparse(const Key& key, const RowSparse& gradient, const PushOptions& options = {}) {
    PushRowSparse(key, std::vector<RowSparse>{gradient}, options);
  }
  virtual void PushRowSparse(const Key& key, const std::vector<RowSparse>& gradients,
                             const PushOptions& options = {}) = 0;
  // Writes row ids[i] of the table into row i of `rows`, for each of the outputs, each time that an id comes;
  // order and versions as Pull.
  void RowSparsePull(const Key& key, const NDArray& ids, NDArray* rows, int priority = 0) {
    RowSparsePull(key, std::vector<RowSparse>{{ids, Of(rows, "RowSparsePull", key)}}, priority);
  }
  template <std::same_as<NDArray> Array>
  void RowSparsePull(const Key& key, const NDArray& ids, Array& rows, int priority = 0) {
    RowSparsePull(key, ids, &rows, priority);
  }
  virtual void RowSparsePull(const Key& key, const std::vector<RowSparse>& outs, int priority = 0) = 0;
  // Which rows have been pushed or set, ascending: int64 {n}, once this worker's last push has closed. What
  // to pull in order to save a table; waits.
  virtual NDArray RowSparseIds(const Key& key) = 0;
  // Rows of a table that was saved, in no round; their states stay. An id may come once. Dist: rank 0's call
  // counts, the others' return at once; nobody may push until it has returned (a Barrier tells). Waits.
  virtual void SetRowSparse(const Key& key, const RowSparse& rows) = 0;

  // Updates happen in the store from here on (update_on_kvstore). Dist: rank 0's call counts; the others'
  // return at once, in async stores as soon as rank 0 has set one, so that a push after it is never too
  // early. Takes effect on every key and server at one round. May be called again to change anything, for
  // example the learning rate. Throws kInvalidArgument naming the field.
  virtual void SetOptimizer(const OptimizerConfig& config) = 0;
  // Own update function, called by Push; it may not call the store, and what it throws, Push throws as Error.
  // It writes `weight` in place, or assigns to it: what it assigns is copied.
  // PushRowSparse calls it with the rows that were pushed, gradients summed: both arrays are {n, ...}, each
  // row once, by ascending row number, and it changes no other row. PushRowSparse then waits for the
  // gradients. Local stores only; for dist write a server program (sluice/server.h).
  virtual void SetUpdater(Updater updater) = 0;

  // What pushes send from here on in place of float32, float16 and bfloat16 gradients, summed over this
  // worker's devices (sluice/compression.h), and how weights come back. Init is not compressed. Each worker
  // may choose its own. What the residuals hold when it is switched off goes with each key's next push; what
  // they hold when the process ends is lost. Throws kInvalidArgument naming the field, and
  // kFailedPrecondition on stores of one process, where nothing travels.
  virtual void SetGradientCompression(const GradientCompression& compression) = 0;

  // Optimiser states of all keys as safetensors, named "<key>/<slot>", with the number of updates of each
  // key, which schedules go by; of row-sparse keys those of the rows that "<key>/rows" lists. Stores of any
  // type read what one has written. Dist: rank 0 writes or reads; states are gathered from the servers;
  // nobody may push until rank 0 has loaded (a Barrier tells).
  virtual void SaveOptimizerStates(const std::string& path) = 0;
  virtual void LoadOptimizerStates(const std::string& path) = 0;

  // How many updates the key's optimiser has made, once this worker's last push has closed: what
  // learning-rate schedules go by, in async stores after division by the number of workers. Waits.
  virtual uint64_t NumUpdates(const Key& key) = 0;

  // How long the calls from here on wait for other processes: Pull, PushPull and their like, each key's time
  // from when its arrays are ready, also while it waits for operations before it; and the calls that return
  // once others have acted (Init, SetOptimizer, Barrier, ...). Before the first call it is what
  // SLUICE_OPERATION_TIMEOUT says, else ten minutes. What is not done then fails with kDeadlineExceeded that
  // names whom it waited for. kNoTimeout: for as long as those it waits for are alive (PS_HEARTBEAT_TIMEOUT).
  // Stores of one process wait for nobody: without a call they have no limit. Throws kInvalidArgument unless
  // it is positive.
  virtual void SetTimeout(std::chrono::milliseconds timeout) = 0;

  // Waits until everything issued so far is done; throws the first failure not yet thrown. After
  // kDeadlineExceeded the rest is still waited for by the next call.
  virtual void WaitAll(std::chrono::milliseconds timeout = kDefaultTimeout) = 0;
  // Waits until all members have called it as often as this one; throws kDeadlineExceeded that names who is
  // missing, and kInvalidArgument for kServers on dist stores, since a worker is none. Servers take part in
  // kAll when their program calls ServerNode::Barrier (sluice/server.h); stock servers do not. Stores of one
  // process are their only member. A call that throws an earlier operation's failure is none; one that ends
  // at its deadline counts.
  virtual void Barrier(BarrierGroup group = BarrierGroup::kWorkers,
                       std::chrono::milliseconds timeout = kDefaultTimeout) = 0;
  // The same among the workers of these ranks, in any order; each set of ranks counts its own barriers.
  // Throws kInvalidArgument when this worker is not among them or a rank does not exist.
  virtual void Barrier(const std::vector<int>& ranks,
                       std::chrono::milliseconds timeout = kDefaultTimeout) = 0;
  // A barrier of all workers that brings rank 0's word to each: for what all must decide alike, such as where
  // to go on or when to stop. Throws as Barrier does, and kInvalidArgument for a word of more than 64 KiB. A
  // store of one process returns its own.
  virtual std::string Agree(const std::string& word, std::chrono::milliseconds timeout = kDefaultTimeout) = 0;
  // How many nodes of the job have been found dead so far: workers, servers and the scheduler. Still answers
  // after a death has ended the job and everything else throws.
  virtual int NumDeadNodes() = 0;

  // The store's own timeout (SetTimeout).
  static constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::milliseconds::min();
  static constexpr std::chrono::milliseconds kNoTimeout = std::chrono::milliseconds::max();

 private:
  // *out. Throws Error(kInvalidArgument) for null.
  static const NDArray& Of(const NDArray* out, const char* call, const Key& key);
};

}  // namespace sluice

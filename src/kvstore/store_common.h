// Argument checks and bookkeeping that all stores share. Free functions are thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "sluice/error.h"
#include "sluice/kvstore.h"
#include "tensor/stream.h"

namespace sluice::kvstore {

// The keys of a call, each once, with their arrays in order. An
// object refers to the call's arguments and must not outlive them.
class Entries {
 public:
  struct Entry {
    const Key& key;
    const std::vector<NDArray>& arrays;
  };
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  const Entry& operator[](size_t i) const { return entries_[i]; }
  size_t size() const { return entries_.size(); }

 private:
  friend Entries GroupByKey(const std::string& what, const std::vector<Key>& keys,
                            const std::vector<KVStore::Values>& values);
  InlineVector<Entry, 1> entries_;
  std::vector<std::unique_ptr<std::vector<NDArray>>> grouped_;  // the arrays of keys that are repeated
};

// Checks that keys and values pair up and that no list is empty; puts the arrays of a repeated key
// together, in the order of first appearance. Throws Error(kInvalidArgument) with a message that begins
// with `what`.
Entries GroupByKey(const std::string& what, const std::vector<Key>& keys,
                   const std::vector<KVStore::Values>& values);

// One array for each key, as lists for GroupByKey. Throws Error(kInvalidArgument)
// with a message that begins with `what` when a key is repeated.
std::vector<KVStore::Values> OneArrayPerKey(const std::string& what, const std::vector<Key>& keys,
                                            const std::vector<NDArray>& values);

// For Init: throws Error(kInvalidArgument) unless keys and values pair up and every value is an array.
void RequireValues(const std::vector<Key>& keys, const std::vector<NDArray>& values);
// For Init: throws Error(kInvalidArgument) unless a string key is
// UTF-8 of at most 64 KiB; names are sent and written to files.
void RequireName(const Key& key);
// For a push: throws Error(kInvalidArgument), with a message that begins with
// `what`, unless the divisor is positive and finite, and 1 for integers.
void RequireDivisor(const std::string& what, const Key& key, DType dtype, const PushOptions& options);

// Throws Error(kInvalidArgument) that names the field.
void RequireValid(const GradientCompression& compression);

// The message of a failed operation, with `what` in front unless it begins with that already.
std::string Named(std::string_view what, const std::string& message);

// A key's shape and dtype, fixed by Init or InitRowSparse.
struct KeyShape {
  Shape shape;
  DType dtype = DType::kFloat32;
  bool row_sparse = false;
};
// Throws Error(kInvalidArgument) for row-sparse keys, and when an array
// does not have the key's shape and dtype; the message names both.
void RequireFit(const std::string& what, const Key& key, const KeyShape& expected,
                const std::vector<NDArray>& arrays);

// A completion with inline room for a call of a distributed store.
using WhenAllDone = InlineFunction<void(const std::exception_ptr& error), 224>;
// Calls `then` once all events are done, with the error that came first (null when
// there is none), on the thread that completes the last event, or on the caller's
// when all are done already. Its record until then is allocated from `records`.
void WhenAll(const Events& events, WhenAllDone then, const std::shared_ptr<Allocator>& records);

// Waits for all events. Throws Error(kDeadlineExceeded) that names the first event that
// is not done after `timeout`; `done` has then been called for each event before it.
void AwaitAll(const std::vector<Event>& events, Duration timeout,
              const std::function<void(const Event&)>& done = {});

// The operations that have been issued and have not finished,
// and the failures that have not been thrown yet. Thread-safe.
class OutstandingOperations {
 public:
  // Adds an operation. If `event` ends with an error, a following Check throws it, with `what` in front.
  void Add(Label what, const Event& event);
  bool AllDone() const { return ends_->missing == 0; }
  // Throws the first failure that has not been thrown yet; cheap while there is none.
  void Check();
  // Waits for all operations, then does as Check. Throws Error(kDeadlineExceeded)
  // after `timeout`; operations that are not done stay outstanding.
  void Wait(Duration timeout);
  // As Check, but ignores and forgets failures with code `expected`.
  void CheckAllBut(ErrorCode expected);

 private:
  // Shared with the events' callbacks, which may run after this object is destroyed.
  struct Ends {
    std::atomic<bool> failed = false;
    std::atomic<size_t> missing = 0;
  };
  const std::shared_ptr<Ends> ends_ = std::make_shared<Ends>();
  Mutex mutex_;
  std::vector<std::pair<Label, Event>> events_ SLUICE_GUARDED_BY(mutex_);
};

// For Barrier: the ranks, sorted and each once. Throws
// Error(kInvalidArgument) unless all exist and `self` is among them.
std::vector<uint32_t> RequireRanks(const std::vector<int>& ranks, int self, int num_workers);
// For SetTimeout: throws Error(kInvalidArgument) unless `timeout` is positive.
void RequireTimeout(std::chrono::milliseconds timeout);
// For Agree: throws Error(kInvalidArgument) when `word` is longer than the texts of a message may be.
void RequireWord(const std::string& word);

}  // namespace sluice::kvstore

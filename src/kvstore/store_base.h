// What every store checks and keeps the same way.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sluice/error.h"
#include "sluice/kvstore.h"
#include "tensor/stream.h"

namespace sluice::kvstore {

// The keys of a call, each once, with their arrays in order. Refers to the call's arguments.
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
  friend Entries Join(const std::string& what, const std::vector<Key>& keys,
                      const std::vector<KVStore::Values>& values);
  InlineVector<Entry, 1> entries_;
  std::vector<std::unique_ptr<std::vector<NDArray>>> joined_;  // of keys that are repeated
};

// Checks that keys and values pair up, that no list is empty and arrays of a key are alike; joins repeats of
// a key, in order of first appearance. Throws Error(kInvalidArgument) that begins with `what`.
Entries Join(const std::string& what, const std::vector<Key>& keys,
             const std::vector<KVStore::Values>& values);

// One array for each key, as lists for Join; throws Error(kInvalidArgument) that begins with `what` when a
// key comes twice.
std::vector<KVStore::Values> OneArrayPerKey(const std::string& what, const std::vector<Key>& keys,
                                            const std::vector<NDArray>& values);

// Of Init: that keys and values pair up and every value is an array. Throws Error(kInvalidArgument).
void RequireValues(const std::vector<Key>& keys, const std::vector<NDArray>& values);
// Of Init: a name is UTF-8 of at most 64 KiB, since it travels and is written to files. Throws
// Error(kInvalidArgument).
void RequireName(const Key& key);
// Of a push. Throws Error(kInvalidArgument) that begins with `what`.
void RequireDivisor(const std::string& what, const Key& key, DType dtype, const PushOptions& options);

// Throws Error(kInvalidArgument) naming the field.
void RequireValid(const GradientCompression& compression);

// The message of a failed operation, beginning with what it was; once.
std::string Named(std::string_view what, const std::string& message);

// A key's shape and dtype, fixed by Init or InitRowSparse.
struct KeyShape {
  Shape shape;
  DType dtype = DType::kFloat32;
  bool row_sparse = false;
};
// Throws Error(kInvalidArgument) naming the key and both when an array does not fit, and for row-sparse keys.
void RequireFit(const std::string& what, const Key& key, const KeyShape& expected,
                const std::vector<NDArray>& arrays);

// With room for a call of a distributed store.
using WhenAllDone = InlineFunction<void(const std::exception_ptr& error), 224>;
// Runs `then` when all events are done, with the error that came first (null: none); on the thread that
// completes the last one, or here. What it keeps until then is memory of `records`.
void WhenAll(const Events& events, WhenAllDone then, const std::shared_ptr<Allocator>& records);

// Throws Error(kDeadlineExceeded) naming the first that is not done in time; tells `done` of each before it.
void AwaitAll(const std::vector<Event>& events, Duration timeout,
              const std::function<void(const Event&)>& done = {});

// What has been issued and not finished, and what went wrong. Thread-safe.
class OutstandingOperations {
 public:
  // The event's error, once it is done with one, is what Check throws next, with `what` before it.
  void Add(Label what, const Event& event);
  bool AllDone() const { return ends_->missing == 0; }
  void Check();  // throws the first failure not yet thrown; cheap while there is none
  // For all; throws the first failure not yet thrown. What is not done in time is still outstanding.
  void Wait(Duration timeout);
  // As Check, of failures with another code than `expected`; those with it are forgotten.
  void CheckAllBut(ErrorCode expected);

 private:
  // Of events, which may end after this object is gone.
  struct Ends {
    std::atomic<bool> failed = false;
    std::atomic<size_t> missing = 0;
  };
  const std::shared_ptr<Ends> ends_ = std::make_shared<Ends>();
  std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<std::pair<Label, Event>> events_;
};

// Of a barrier: sorted, each once. Throws Error(kInvalidArgument) unless all exist and `self` is among them.
std::vector<uint32_t> RequireRanks(const std::vector<int>& ranks, int self, int num_workers);
// Of SetTimeout: throws Error(kInvalidArgument) unless it is positive.
void RequireTimeout(std::chrono::milliseconds timeout);
// Of Agree: throws Error(kInvalidArgument) when it is longer than a message's texts may be.
void RequireWord(const std::string& word);

}  // namespace sluice::kvstore

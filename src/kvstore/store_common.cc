// What local and distributed stores share: DenseCalls::DoBroadcast, the checks of a call's arguments,
// WhenAll, and OutstandingOperations, which owns the list of operations that have not ended. Invariants: a
// check changes nothing; an operation leaves the list only once it has succeeded or its failure has been
// thrown; WhenAll calls `then` once. The stores and their parts call the functions on the program's threads.
// The callbacks that WhenAll and OutstandingOperations::Add give to events run on the threads that complete
// these, or at once where the event is done.
#include "kvstore/store_common.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <ranges>
#include <set>

#include "base/pool_allocator.h"
#include "base/strings.h"
#include "wire/codec.h"

namespace sluice {

std::string ToString(const Key& key) {
  return std::holds_alternative<int64_t>(key) ? std::to_string(std::get<int64_t>(key))
                                              : std::get<std::string>(key);
}

void internal::DenseCalls::DoBroadcast(const std::vector<Key>& keys, const std::vector<NDArray>& values,
                                       const std::vector<Values>& outs) {
  kvstore::RequireValues(keys, values);
  kvstore::GroupByKey("Broadcast", keys, outs);
  for (size_t i = 0; i < keys.size(); ++i)
    kvstore::RequireFit("Broadcast", keys[i], {values[i].shape(), values[i].dtype()}, outs[i]);
  DoInit(keys, values);
  DoPull(keys, outs, 0, false);
}

namespace kvstore {

namespace {

// Keys in ascending order have no repeats. Otherwise they are sorted
// by hash, so that names are compared only where hashes are equal.
bool HaveRepeats(const std::vector<Key>& keys) {
  if (std::ranges::adjacent_find(keys, std::ranges::greater_equal()) == keys.end()) return false;
  std::vector<std::pair<size_t, const Key*>> sorted;
  sorted.reserve(keys.size());
  for (const Key& key : keys) sorted.emplace_back(std::hash<Key>()(key), &key);
  std::ranges::sort(sorted, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : *a.second < *b.second;
  });
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first && *a.second == *b.second; };
  return std::ranges::adjacent_find(sorted, same) != sorted.end();
}

}  // namespace

Entries GroupByKey(const std::string& what, const std::vector<Key>& keys,
                   const std::vector<KVStore::Values>& values) {
  if (keys.size() != values.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat(what, ": ", Counted(static_cast<int64_t>(keys.size()), "key"), " and arrays for ",
                       values.size(), "; give each key its array, or one for each device"));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (values[i].empty())
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat(what, ": key ", ToString(keys[i]), " comes without an array"));
  }
  Entries result;
  if (!HaveRepeats(keys)) {
    result.entries_.reserve(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) result.entries_.push_back({keys[i], values[i]});
    return result;
  }
  std::map<Key, std::vector<size_t>> places;
  for (size_t i = 0; i < keys.size(); ++i) places[keys[i]].push_back(i);
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::vector<size_t>& of_key = places.at(keys[i]);
    if (of_key.front() != i) continue;
    if (of_key.size() == 1) {
      result.entries_.push_back({keys[i], values[i]});
      continue;
    }
    auto& arrays = *result.grouped_.emplace_back(std::make_unique<std::vector<NDArray>>());
    for (const size_t place : of_key) arrays.insert(arrays.end(), values[place].begin(), values[place].end());
    result.entries_.push_back({keys[i], arrays});
  }
  return result;
}

std::vector<KVStore::Values> OneArrayPerKey(const std::string& what, const std::vector<Key>& keys,
                                            const std::vector<NDArray>& values) {
  std::set<Key> seen;
  for (const Key& key : keys) {
    if (seen.insert(key).second) continue;
    throw Error(ErrorCode::kInvalidArgument,
                StrCat(what, ": key ", ToString(key), " comes twice; once is meant"));
  }
  std::vector<KVStore::Values> lists;
  for (const NDArray& value : values) lists.push_back({value});
  return lists;
}

void RequireValues(const std::vector<Key>& keys, const std::vector<NDArray>& values) {
  if (keys.size() != values.size()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        StrCat("Init: ", Counted(static_cast<int64_t>(keys.size()), "key"), " and ",
               Counted(static_cast<int64_t>(values.size()), "array"), "; give one array for each key"));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (values[i].valid()) continue;
    throw Error(ErrorCode::kInvalidArgument, StrCat("Init of key ", ToString(keys[i]),
                                                    ": no array was given, but one that was never made or "
                                                    "has been moved from; give the key's first value"));
  }
}

void RequireName(const Key& key) {
  const auto* name = std::get_if<std::string>(&key);
  if (name == nullptr) return;
  if (const size_t most = wire::Limits().max_text_bytes; name->size() > most) {
    throw Error(ErrorCode::kInvalidArgument, StrCat("Init: the name of key ", name->substr(0, 40), "... has ",
                                                    name->size(), " bytes; at most ", most, " are accepted"));
  }
  if (!IsUtf8(*name)) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("Init: the name of key ", *name, " is not UTF-8, as names in files must be"));
  }
}

void RequireDivisor(const std::string& what, const Key& key, DType dtype, const PushOptions& options) {
  if (std::isfinite(options.divisor) && options.divisor > 0 && (IsFloating(dtype) || options.divisor == 1))
    return;
  throw Error(ErrorCode::kInvalidArgument,
              StrCat(what, " of key ", ToString(key), ", ", Name(dtype), ": the divisor is ", options.divisor,
                     IsFloating(dtype) ? "; it must be positive and finite" : "; whole numbers take 1 only"));
}

void RequireValid(const GradientCompression& compression) {
  if (const std::string why = InvalidReason(compression); !why.empty())
    throw Error(ErrorCode::kInvalidArgument, why);
}

std::string Named(std::string_view what, const std::string& message) {
  return message.starts_with(what) ? message : StrCat(what, ": ", message);
}

void RequireFit(const std::string& what, const Key& key, const KeyShape& expected,
                const std::vector<NDArray>& arrays) {
  if (expected.row_sparse) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat(what, " of key ", ToString(key),
                       ": the key is row-sparse; PushRowSparse and RowSparsePull are for such keys"));
  }
  for (const NDArray& array : arrays) {
    if (!array.valid() || array.shape() != expected.shape || array.dtype() != expected.dtype) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat(what, " of key ", ToString(key), ": ",
                         array.valid() ? StrCat(Name(array.dtype()), " ", array.shape()) : "no array",
                         " was given, the key is ", Name(expected.dtype), " ", expected.shape));
    }
  }
}

void WhenAll(const Events& events, WhenAllDone then, const std::shared_ptr<Allocator>& records) {
  struct Countdown {
    std::atomic<size_t> left;
    std::atomic<bool> failed = false;
    std::exception_ptr error;  // written by the callback that sets `failed`
    WhenAllDone then;
  };
  auto countdown = std::allocate_shared<Countdown>(MemoryOf<Countdown>(records));
  countdown->left = events.size() + 1;
  countdown->then = std::move(then);
  const auto one_done = [countdown](const std::exception_ptr& error) {
    if (error != nullptr && !countdown->failed.exchange(true)) countdown->error = error;
    if (countdown->left.fetch_sub(1) == 1) countdown->then(countdown->error);
  };
  for (const Event& event : events) event.OnDone(one_done);
  one_done(nullptr);
}

void OutstandingOperations::Add(Label what, const Event& event) {
  ++ends_->missing;
  event.OnDone([ends = ends_](const std::exception_ptr& error) {
    if (error != nullptr) ends->failed = true;
    --ends->missing;
  });
  const MutexLock lock(mutex_);
  // Operations that succeeded are removed when the oldest
  // has succeeded, and otherwise before the list would grow.
  if (!events_.empty() && (events_.front().second.Succeeded() || events_.size() == events_.capacity()))
    std::erase_if(events_, [](const auto& entry) { return entry.second.Succeeded(); });
  events_.emplace_back(std::move(what), event);
}

namespace {

[[noreturn]] void Rethrow(std::string_view what, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    throw Error(e.code(), Named(what, e.what()));
  } catch (const std::exception& e) {
    throw Error(ErrorCode::kFailedPrecondition, StrCat(what, ": ", e.what()));
  }
}

}  // namespace

void OutstandingOperations::Check() {
  if (!ends_->failed.exchange(false)) return;
  std::optional<std::pair<Label, Event>> failed;
  {
    const MutexLock lock(mutex_);
    const auto it = std::ranges::find_if(
        events_, [](const auto& entry) { return entry.second.Done() && entry.second.error() != nullptr; });
    if (it == events_.end()) return;
    failed = *it;
    events_.erase(it);
    ends_->failed = true;  // further operations may have failed
  }
  Rethrow(failed->first, failed->second.error());
}

void OutstandingOperations::CheckAllBut(ErrorCode expected) {
  while (true) {
    try {
      return Check();
    } catch (const Error& error) {
      if (error.code() != expected) throw;
    }
  }
}

void AwaitAll(const std::vector<Event>& events, Duration timeout,
              const std::function<void(const Event&)>& done) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  const auto left = [end] { return std::max<Duration>(end - std::chrono::steady_clock::now(), 1ms); };
  // The newest event comes first: when it is done, most others
  // are too, and every wait that blocks costs a wake-up.
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (!event->DoneWithin(left())) break;
  }
  for (const Event& event : events) {
    event.WaitQuietly(left());
    if (done) done(event);
  }
}

void OutstandingOperations::Wait(Duration timeout) {
  std::vector<Event> all;
  {
    const MutexLock lock(mutex_);
    for (const auto& [what, event] : events_) all.push_back(event);
  }
  AwaitAll(all, timeout, [this](const Event& event) {
    if (event.error() != nullptr) ends_->failed = true;  // the callback of Add may not have run yet
  });
  Check();
}

std::vector<uint32_t> RequireRanks(const std::vector<int>& ranks, int self, int num_workers) {
  std::set<uint32_t> members;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= num_workers) {
      throw Error(ErrorCode::kInvalidArgument,
                  StrCat("Barrier: there is no worker ", rank, "; the ranks are 0 to ", num_workers - 1));
    }
    members.insert(static_cast<uint32_t>(rank));
  }
  if (!members.contains(static_cast<uint32_t>(self))) {
    throw Error(
        ErrorCode::kInvalidArgument,
        StrCat("Barrier: this is worker ", self, ", which is not among the ranks given; only members wait"));
  }
  return {members.begin(), members.end()};
}

void RequireTimeout(std::chrono::milliseconds timeout) {
  if (timeout > timeout.zero()) return;
  throw Error(ErrorCode::kInvalidArgument,
              StrCat("SetTimeout: ", timeout.count(),
                     " ms; it must be positive, and kNoTimeout waits without limit"));
}

void RequireWord(const std::string& word) {
  if (const size_t most = wire::Limits().max_text_bytes; word.size() > most) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("Agree: the word has ", word.size(), " bytes; at most ", most, " are carried"));
  }
}

}  // namespace kvstore
}  // namespace sluice

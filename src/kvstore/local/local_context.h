// LocalContext has what all parts of a LocalStore use.
#pragma once

#include <atomic>
#include <thread>

#include "kvstore/store_common.h"
#include "kvstore/update/update.h"

namespace sluice::kvstore {

// UpdaterRunner runs the program's updater and knows on which thread it is.
class UpdaterRunner {
 public:
  // Calls `updater` with gradient * factor; one thread at a time. Whole numbers take factor 1. Throws Error
  // with the cause when the updater throws.
  void Run(const KVStore::Updater& updater, const Key& key, const NDArray& gradient, double factor,
           NDArray& weight);
  // Whether the calling thread is inside Run. May be called on any thread.
  bool RunsHere() const { return thread_ == std::this_thread::get_id(); }

 private:
  std::atomic<std::thread::id> thread_;  // the thread that runs the updater
};

struct LocalContext {
  std::atomic<Duration> timeout = kNoLimit;
  OutstandingOperations outstanding;
  UpdaterRunner updater_runner;
};

// What the program may change from one call to the next.
struct LocalSettings {
  UpdateRule rule;
  KVStore::Updater updater;  // replaces the rule; null: none was set
};

}  // namespace sluice::kvstore

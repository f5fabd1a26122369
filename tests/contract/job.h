// A whole job in one process: scheduler and servers run on loops with real sockets, and each worker has a
// thread and a store of its own.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sluice/kvstore.h"
#include "sluice/store_type.h"
#include "tensor/devices.h"

namespace sluice::worker {
class Tracer;
}

namespace sluice::testing {

// Returns the i-th device of a worker. The workers share this process but must not share a device: a worker's
// stream waits for the gradients of the others, which would be queued behind it.
// contexts.cc has those of CPUs, tests/gpu/card_contexts.cc those of cards.
Context DeviceOf(const KVStore& store, int i = 0);
DevicesOptions OptionsOfDevices();
// The types of stores of one process that these devices have.
std::vector<std::string> LocalStoreTypes();

// All types of stores, and those in which every worker has the same weights after a round.
std::vector<std::string> StoreTypes();
std::vector<std::string> SyncStoreTypes();

// Returns an array on that device with `value` in every element.
inline NDArray Filled(const KVStore& store, const Shape& shape, double value, int device = 0,
                      DType dtype = DType::kFloat32) {
  NDArray array = NDArray::Empty(shape, DeviceOf(store, device), dtype);
  array.Fill(value);
  return array;
}

struct JobOptions {
  std::string type = "local";  // type of the store
  int workers = 1;             // must be 1 for stores of one process
  int servers = 2;
  int server_threads = 1;
  std::optional<int64_t> bigarray_bound;
  int64_t part_bytes = 1 << 20;
  size_t min_leased_bytes = 16;                          // SharedHeap::Options; so small that most is leased
  std::optional<uint64_t> room_bytes, max_queued_bytes;  // transport::LoopOptions of the shards' loops
  worker::Tracer* tracer = nullptr;                      // given to every worker
  std::chrono::milliseconds operation_timeout = std::chrono::minutes(10);
};

// The constructor returns once all workers have joined; the destructor once all have left and all loops have
// ended.
class Job {
 public:
  explicit Job(const JobOptions& options);
  ~Job();

  // Runs `body` once for each worker, each on a thread of its own with a store of its own, and returns when
  // all have ended. An exception from a body fails the test.
  using Body = std::function<void(KVStore& store)>;
  void Run(const Body& body);
  // As Run, for bodies that keep the store or release it.
  void RunShared(const std::function<void(std::shared_ptr<KVStore>)>& body);
  // Makes another store of this worker; an empty `type` stands for the job's type.
  std::shared_ptr<KVStore> MakeStore(int rank, const std::string& type = {});
  // dist only: this worker leaves the job now, and not in the destructor.
  void Leave(int rank);
  // dist only: does the same and destroys the worker's node, as if its process ended. The caller passes its
  // last reference to the store.
  void End(int rank, std::shared_ptr<KVStore> store);
  void Flush(int rank);  // dist only: the first half of Leave; throws Error
  // dist only: returns the counters of scheduler and servers, by process name.
  std::map<std::string, std::map<std::string, uint64_t>> Stats();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;  // keeps the headers of scheduler and servers out of the tests
};

}  // namespace sluice::testing

// StoreContext has what all parts of a DistStore use: its options, the loop of its client, its pools, its
// timeout and the operations that have not ended.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "collective/reducer.h"
#include "kvstore/store_common.h"
#include "worker/call_batch.h"
#include "worker/client.h"

namespace sluice::worker {

struct DistStoreOptions {
  std::string type;  // "dist_sync"
  wire::SyncMode mode = wire::SyncMode::kSync;
  int num_workers = 1;
  uint32_t number = 0;  // counts the stores of the process; all workers make theirs in one order
  collective::HostWork host_work = EnqueueOn;           // runs compression and sums of rows
  std::shared_ptr<Allocator> memory = HeapAllocator();  // for data that is made to be sent
  bool adopts = false;                                  // arrays may adopt leased values
  std::chrono::milliseconds timeout = 10min;            // for pulls and calls that wait, until SetTimeout
  Tracer* tracer = nullptr;                             // must outlive the store; null: none
};

// What the program may change from one call to the next.
struct StoreSettings {
  // The encoding of pulled weights. A key without an optimiser holds gradients, which are not rounded.
  Compression Weights() const { return optimizer == nullptr ? Compression::kNone : compression.weights; }

  std::shared_ptr<const Optimizer> optimizer;  // null: none was set
  GradientCompression compression;
};

// Thread safety: all methods may be called on any thread.
class StoreContext {
 public:
  // `client` runs on `loop` and has joined the job.
  StoreContext(DistStoreOptions options, std::shared_ptr<Client> client,
               std::shared_ptr<transport::Loop> loop);

  const DistStoreOptions& options() const { return options_; }
  const ClientLoop& client() const { return client_; }
  int rank() const { return rank_; }
  const std::shared_ptr<Allocator>& records() const { return records_; }  // for events and open operations
  const std::shared_ptr<Allocator>& sent() const { return sent_; }  // for the blocks of small-key batches
  kvstore::OutstandingOperations& outstanding() { return outstanding_; }

  // As KVStore::SetTimeout.
  void SetTimeout(std::chrono::milliseconds timeout);
  // Returns `given`, or the store's own timeout for kDefaultTimeout.
  Duration Timeout(std::chrono::milliseconds given = KVStore::kDefaultTimeout) const;

  // Makes the event that ends an operation. If the operation's calls may run inline, a thread that waits for
  // the event drives the client's loop.
  Event MakeEnd(const Label& what, bool may_run_inline) const;
  // Reports `stage` of a key's round to the tracer when `passed` completes without an error.
  void Trace(const Event& passed, Stage stage, uint32_t key, uint64_t round, uint64_t bytes) const;

  // Runs `call` on the loop, waits for its end and throws its error. `call` may outlive the
  // wait, so it must own what it uses.
  void Await(const std::string& what, Duration timeout, ControlCall call) const;
  // The same for an operation on keys, with the store's timeout.
  void Await(const std::string& what, std::shared_ptr<Operation> op) const;
  // The two halves of Await: Ask starts the call and returns its end, WaitFor waits and throws.
  Event Ask(const std::string& what, ControlCall call) const;
  Event Ask(const std::string& what, std::shared_ptr<Operation> op) const;
  static void WaitFor(const std::vector<Event>& asked, Duration timeout);

 private:
  const DistStoreOptions options_;
  const ClientLoop client_;
  const std::shared_ptr<Event::LoopDriver> loop_driver_;
  const std::shared_ptr<Allocator> records_;
  const std::shared_ptr<Allocator> sent_;
  const int rank_;
  std::atomic<Duration> timeout_;
  kvstore::OutstandingOperations outstanding_;
};

}  // namespace sluice::worker

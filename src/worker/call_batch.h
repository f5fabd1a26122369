// How the operations of a store get from the caller's thread to the client's loop.
#pragma once

#include <exception>
#include <vector>

#include "base/clock.h"
#include "base/inline_function.h"
#include "base/pool_allocator.h"
#include "tensor/stream.h"
#include "transport/transport.h"
#include "worker/client.h"
#include "worker/event_completer.h"
#include "worker/small_key_batch.h"

namespace sluice::worker {

// What a store runs on its client's loop, besides operations that are submitted as they are. Stored inline.
using ControlCall = InlineFunction<void(Client&, Time, transport::Network&, const EventCompleter& done), 128>;

// The loop that a client runs on.
//
// With `may_run_inline` the loop may run the call in the caller's thread, before the method returns
// (Loop::PostOrRun): for a caller that has nothing else to do meanwhile.
struct ClientLoop {
  // Submits `op` to the client on the loop, with a deadline of `timeout` from then on. `done` completes when
  // it ends, with kCancelled if the loop has ended.
  void Submit(std::shared_ptr<Operation> op, Duration timeout, const Event& done, bool may_run_inline) const;
  // Completes `done` with the error of an operation that is not submitted, and makes a thread that waits for
  // it and drives the loop (transport::Loop::DriveUntil) look at it.
  void Fail(const std::exception_ptr& error, const Event& done) const;
  // Runs `call` on the loop. `done` completes as above.
  void Run(ControlCall&& call, const Event& done, bool may_run_inline) const;

  std::shared_ptr<Client> client;
  std::shared_ptr<transport::Loop> loop;
};

// Collects the operations that one call of a store issues, key by key, and submits them together at its end,
// also when it throws. Operations for one server then share messages.
//
// Thread safety: one thread.
class CallBatch {
 public:
  // `keys` is the most operations that are added; a single one is submitted at once. `may_run_inline` is that
  // of ClientLoop. `records` is the memory for collected operations.
  CallBatch(ClientLoop to, size_t keys, bool may_run_inline, const std::shared_ptr<Allocator>& records);
  CallBatch(const CallBatch&) = delete;
  CallBatch& operator=(const CallBatch&) = delete;
  ~CallBatch() { Submit(); }

  void Add(std::shared_ptr<Operation> op, Duration timeout, const Event& done);
  // Returns the shard's open small-key batch if it has room for `bytes` more. Otherwise adds the batch to
  // the collected operations and returns null.
  SmallKeyBatch* BatchOf(uint32_t shard, size_t bytes);
  // Opens a small-key batch for the shard. It is added when it is full, or by Submit.
  SmallKeyBatch& Open(uint32_t shard, SmallKeyBatch batch, Duration timeout);
  // Submits what has been added so far. Call it before waiting for the end of any of these operations.
  void Submit();
  bool may_run_inline() const { return may_run_inline_; }

 private:
  struct QueuedOperation {
    std::shared_ptr<Operation> op;
    Duration timeout;
    Event done;
  };
  using List = std::vector<QueuedOperation, MemoryOf<QueuedOperation>>;
  struct OpenBatch {
    uint32_t shard;
    SmallKeyBatch batch;
    Duration timeout;
  };
  void Close(OpenBatch& open);

  const ClientLoop to_;
  const bool may_run_inline_;
  const std::shared_ptr<Allocator> records_;
  const size_t keys_;
  std::shared_ptr<List> collected_;                      // null: none
  std::vector<OpenBatch, MemoryOf<OpenBatch>> batches_;  // at most one per shard
};

}  // namespace sluice::worker

// How calls of a store get from the caller's thread to the client's loop.
#pragma once

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

// A call of the client, stored inline.
using Call = InlineFunction<void(Client&, Time, transport::Network&, const EventCompleter& done), 128>;

// Returns the call that submits `op` with a deadline of `timeout` from then on, and completes `done` at its
// end.
Call SubmitCall(std::shared_ptr<Operation> op, Duration timeout);

// The loop that a client runs on.
struct ClientLoop {
  // Runs `call` on the loop; `done` completes when it ends, with kCancelled if the loop has ended. With
  // `may_run_inline` the loop may run the call in the caller's thread, before this returns
  // (Loop::PostOrRun): for a caller that has nothing else to do meanwhile.
  void Submit(Call&& call, const Event& done, bool may_run_inline) const;

  std::shared_ptr<Client> client;
  std::shared_ptr<transport::Loop> loop;
};

// Collects the calls that one call of a store makes, key by key, and submits them together at its end, also
// when it throws. Operations for one server then share messages.
//
// Thread safety: one thread.
class CallBatch {
 public:
  // `keys` is the most calls that are added; a single one is submitted at once. `may_run_inline` is that of
  // ClientLoop::Submit. `records` is the memory for collected calls.
  CallBatch(ClientLoop to, size_t keys, bool may_run_inline, const std::shared_ptr<Allocator>& records);
  CallBatch(const CallBatch&) = delete;
  CallBatch& operator=(const CallBatch&) = delete;
  ~CallBatch() { Submit(); }

  void Add(Call&& call, const Event& done);
  // Returns the shard's open small-key batch if it has room for `bytes` more. Otherwise adds the batch to
  // the collected calls and returns null.
  SmallKeyBatch* BatchOf(uint32_t shard, size_t bytes);
  // Opens a small-key batch for the shard. It is added when it is full, or by Submit.
  SmallKeyBatch& Open(uint32_t shard, SmallKeyBatch batch, Duration timeout);
  // Submits what has been added so far. Call it before waiting for the end of any of these calls.
  void Submit();
  bool may_run_inline() const { return may_run_inline_; }

 private:
  struct Asked {
    Call call;
    Event done;
  };
  using List = std::vector<Asked, MemoryOf<Asked>>;
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
  std::shared_ptr<List> asked_;                          // the collected calls; null: none
  std::vector<OpenBatch, MemoryOf<OpenBatch>> batches_;  // at most one per shard
};

}  // namespace sluice::worker

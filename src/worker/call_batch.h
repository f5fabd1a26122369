// From a caller's thread to the client's loop.
#pragma once

#include <vector>

#include "base/inline_function.h"
#include "base/pool_allocator.h"
#include "tensor/stream.h"
#include "transport/transport.h"
#include "worker/client.h"
#include "worker/event_completer.h"
#include "worker/small_key_batch.h"

namespace sluice::worker {

// What is asked of the client. With room for a push and where its answer lands.
using Call = InlineFunction<void(Client&, Time, transport::Network&, const EventCompleter& done), 128>;

// The loop that a client runs on.
struct ClientLoop {
  // `done` is the end of `call`. `alone`: there is nothing else that this thread could do meanwhile. A loop
  // that has ended is an error of `done`.
  void Submit(Call&& call, const Event& done, bool may_run_inline) const;

  std::shared_ptr<Client> client;
  std::shared_ptr<transport::Loop> loop;
};

// What one call of a store asks of the client, key by key; handed over together at its end, whatever has been
// thrown meanwhile. What goes to one server then fits few messages.
class CallBatch {
 public:
  // `keys`: how many at most; `alone`: see ClientLoop. `records`: for what waits.
  CallBatch(ClientLoop to, size_t keys, bool may_run_inline, const std::shared_ptr<Allocator>& records);
  CallBatch(const CallBatch&) = delete;
  CallBatch& operator=(const CallBatch&) = delete;
  ~CallBatch() { Submit(); }

  void Add(Call&& call, const Event& done);
  // The open one with keys of `shard`, where it has room for so many bytes more; else null.
  SmallKeyBatch* BatchOf(uint32_t shard, size_t bytes);
  // A new one, to be added when it is full, or with all else.
  SmallKeyBatch& Open(uint32_t shard, SmallKeyBatch batch, Duration timeout);
  // What was added so far, now: for who is to wait for an end of it.
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
  std::shared_ptr<List> asked_;                          // null for one key, which needs no list
  std::vector<OpenBatch, MemoryOf<OpenBatch>> batches_;  // one a shard
};

}  // namespace sluice::worker

// From a caller's thread to the client's loop.
#pragma once

#include <vector>

#include "base/inline_function.h"
#include "base/pool_allocator.h"
#include "tensor/stream.h"
#include "transport/transport.h"
#include "worker/bundle.h"
#include "worker/client.h"
#include "worker/completes.h"

namespace sluice::worker {

// What is asked of the client. With room for a push and where its answer lands.
using Call = InlineFunction<void(Client&, Time, transport::Network&, const Completes& done), 128>;

// The loop that a client runs on.
struct ClientLoop {
  // `done` is the end of `call`. `alone`: there is nothing else that this thread could do meanwhile. A loop
  // that has ended is an error of `done`.
  void HandOver(Call&& call, const Event& done, bool alone) const;

  std::shared_ptr<Client> client;
  std::shared_ptr<transport::Loop> loop;
};

// What one call of a store asks of the client, key by key; handed over together at its end, whatever has been
// thrown meanwhile. What goes to one server then fits few messages.
class Handover {
 public:
  // `keys`: how many at most; `alone`: see ClientLoop. `records`: for what waits.
  Handover(ClientLoop to, size_t keys, bool alone, const std::shared_ptr<Allocator>& records);
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;
  ~Handover() { HandOver(); }

  void Add(Call&& call, const Event& done);
  // The open one with keys of `shard`, where it has room for so many bytes more; else null.
  Bundle* BundleOf(uint32_t shard, size_t bytes);
  // A new one, to be added when it is full, or with all else.
  Bundle& Open(uint32_t shard, Bundle bundle, Duration timeout);
  // What was added so far, now: for who is to wait for an end of it.
  void HandOver();
  bool alone() const { return alone_; }

 private:
  struct Asked {
    Call call;
    Event done;
  };
  using List = std::vector<Asked, MemoryOf<Asked>>;
  struct OpenBundle {
    uint32_t shard;
    Bundle bundle;
    Duration timeout;
  };
  void Close(OpenBundle& open);

  const ClientLoop to_;
  const bool alone_;
  const std::shared_ptr<Allocator> records_;
  const size_t keys_;
  std::shared_ptr<List> asked_;                            // null for one key, which needs no list
  std::vector<OpenBundle, MemoryOf<OpenBundle>> bundles_;  // one a shard
};

}  // namespace sluice::worker

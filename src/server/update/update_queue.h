// UpdateQueue of parts whose rounds have closed: they wait for those of the messages that have come with
// theirs, and are done together, large ones by several threads, which begin as soon as there is enough to do.
// Nobody outside the shard sees a new weight before Run.
//
// Thread safety: the shard's thread; Run shares what is left with the helpers and returns when all is done.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/executor.h"
#include "kvstore/update/update.h"
#include "server/aggregate/part.h"

namespace sluice::server {

class UpdateQueue {
 public:
  // A thread each; they may belong to several shards.
  using Helpers = std::vector<std::shared_ptr<Executor>>;
  explicit UpdateQueue(Helpers helpers);
  ~UpdateQueue();  // what has not begun is not done
  UpdateQueue(const UpdateQueue&) = delete;
  UpdateQueue& operator=(const UpdateQueue&) = delete;

  // One that needs neither the norms of a key nor a program's own function.
  struct Update {
    // One of a part waits at most: its `closed` keeps the gradients, and is cleared when it is done.
    Part* part;
    const UpdateRule* rule;  // until Run
    UpdateInput input;
    Gradients gradients;
    const std::byte* old;
    std::byte* fresh;
  };
  bool worthwhile() const { return !helpers_.empty(); }
  void Add(Update update);
  void StartHelpers();  // lets the helpers begin, if there is enough to do
  void Run();           // throws what an update has thrown, once all have ended
  // Whether some wait and more may: waking the helpers once for several messages costs less.
  bool MayWait() const { return bytes_ > 0 && bytes_ < kMostBytes; }

  static constexpr size_t kMostBytes = size_t{4} << 20;

 private:
  struct Piece {
    const Update* update;
    size_t begin, end;  // elements
  };
  class SharedWork;

  const Helpers helpers_;
  const std::shared_ptr<SharedWork>
      shared_work_;             // outlives this for a helper that comes late and finds nothing
  std::deque<Update> waiting_;  // which stay where they are
  size_t shared_ = 0;           // so many of them, the first ones, are on the board
  size_t bytes_ = 0;            // of all
};

}  // namespace sluice::server

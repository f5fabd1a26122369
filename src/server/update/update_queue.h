// The updates of parts whose rounds have closed. An update waits for those of the messages that arrive with
// its own, and all are carried out together. Several threads share large ones, and begin as soon as there is
// enough to do. No new weight is visible outside the shard before Run.
//
// Thread safety: all methods are for the shard's thread. Run shares the remaining work with the helpers and
// returns when all updates are done.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/executor.h"
#include "kvstore/update/update.h"
#include "server/keys/shard_keys.h"

namespace sluice::server {

class UpdateQueue {
 public:
  // One thread each. Several shards may use the same helpers.
  using Helpers = std::vector<std::shared_ptr<Executor>>;
  explicit UpdateQueue(Helpers helpers);
  ~UpdateQueue();  // drops the pieces that no thread has taken, and waits for the others
  UpdateQueue(const UpdateQueue&) = delete;
  UpdateQueue& operator=(const UpdateQueue&) = delete;

  // An update of one part. Its rule needs neither norms nor the program's own updater.
  struct Update {
    // At most one update of a part waits. ShardPart::closed keeps its gradients until it is done.
    ShardPart* part;
    const UpdateRule* rule;  // must stay valid until Run
    kvstore::UpdateInput input;
    Gradients gradients;
    const std::byte* old;
    std::byte* fresh;
  };
  bool has_helpers() const { return !helpers_.empty(); }
  void Add(Update update);
  void StartHelpers();  // wakes helpers if there is enough to do
  // Carries out all updates. Throws the first exception of a shared one when all have ended, and that of an
  // update that is not shared at once.
  void Run();
  // Whether updates wait and may go on waiting for more messages: waking the helpers once
  // for several messages costs less.
  bool MayWait() const { return bytes_ > 0 && bytes_ < kMostBytes; }

  static constexpr size_t kMostBytes = size_t{4} << 20;

 private:
  struct Piece {
    const Update* update;
    size_t begin, end;  // elements
  };
  class SharedWork;

  const Helpers helpers_;
  // Outlives the queue for a helper whose task runs late.
  const std::shared_ptr<SharedWork> shared_work_;
  std::deque<Update> waiting_;  // a deque, since pieces point to its elements
  size_t shared_ = 0;           // the first `shared_` updates have been put into shared_work_
  size_t bytes_ = 0;            // bytes of weights of all waiting updates
};

}  // namespace sluice::server

// Updates of parts whose rounds have closed: kept until what closed them has been looked through, then done
// together, large ones by several threads. Nobody outside the shard sees a new weight before.
//
// Thread safety: the shard's thread; Run shares the work with the helpers and returns when all is done.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/executor.h"
#include "kvstore/update/update.h"
#include "server/aggregate/part.h"

namespace sluice::server {

class Updates {
 public:
  // A thread each; they may belong to several shards.
  using Helpers = std::vector<std::shared_ptr<Executor>>;
  explicit Updates(Helpers helpers) : helpers_(std::move(helpers)) {}

  // One that needs neither the norms of a key nor a program's own function.
  struct Update {
    // One of a part waits at most: its `closed` keeps the gradients, and is cleared when it is done.
    Part* part;
    const UpdateRule* rule;
    UpdateInput input;
    Gradients gradients;
    const std::byte* old;
    std::byte* fresh;
  };
  bool worthwhile() const { return !helpers_.empty(); }
  void Add(Update update);
  void Run();

 private:
  struct Piece {
    const Update* update;
    size_t begin, end;  // elements
  };
  struct Work;
  static void Take(Work& work);
  void RunTogether(size_t bytes);

  const Helpers helpers_;
  std::vector<Update> waiting_;
};

}  // namespace sluice::server

#include "worker/operation.h"

#include <utility>

namespace sluice::worker {

std::shared_ptr<Operation> NewAwaitRounds(const std::shared_ptr<Allocator>& records, uint32_t key) {
  auto op = NewOperation(records, OpKind::kVersion, key);
  op->name = "wait for the rounds";
  return op;
}

std::shared_ptr<Operation> NewPullUpdates(const std::shared_ptr<Allocator>& records, uint32_t key,
                                          std::function<void(const Result<uint64_t>&)> done) {
  auto op = NewOperation(records, OpKind::kVersion, key);
  op->name = "number of updates";
  op->slot = 1;  // asks for the version of a state, which every part has, even without states
  op->latest = true;
  op->done = [done = std::move(done), op](const Status& status) {
    const bool none = op->version == UINT64_MAX;  // the key has no elements and hence no parts
    done(status.ok() ? Result<uint64_t>(none ? 0 : op->version) : Result<uint64_t>(status.failure()));
  };
  return op;
}

}  // namespace sluice::worker

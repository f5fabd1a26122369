// Client: the calls on keys and values. Each makes an Operation, starts it
// (KeyedOperations) and runs completions.
//
// The client's loop calls everything here. Operations are allocated from the client's pool of
// records. A call that waits for versions (AwaitRounds, PullUpdates, Set on other workers than
// 0) is an operation without data.
#include "worker/client.h"

namespace sluice::worker {

std::shared_ptr<Operation> Client::NewPush(OpKind kind, PushArgs args, Callback done) const {
  auto op = open_.New(kind, args.key);
  op->exponent = args.exponent;
  op->compression = args.compression;
  op->source = std::move(args.source);
  op->priority = args.priority;
  op->samples = args.samples;
  op->divisor = args.divisor;
  op->done = std::move(done);
  return op;
}

void Client::Start(Time now, std::shared_ptr<Operation> op, NetworkRef network) {
  operations_.Start(now, std::move(op), network);
  completions_.Run(now, network);
}

void Client::Push(Time now, PushArgs args, Callback done, NetworkRef network) {
  Start(now, NewPush(OpKind::kPush, std::move(args), std::move(done)), network);
}

void Client::PushPull(Time now, PushArgs args, Destination destination, Time deadline, Callback done,
                      NetworkRef network) {
  auto op = NewPush(OpKind::kPushPull, std::move(args), std::move(done));
  op->only().destination = std::move(destination);
  op->deadline = deadline;
  Start(now, std::move(op), network);
}

void Client::Pull(Time now, PullArgs args, Time deadline, Callback done, NetworkRef network) {
  auto op = open_.New(OpKind::kPull, args.key);
  op->only().destination = std::move(args.destination);
  op->priority = args.priority;
  op->slot = args.slot;
  op->compression.weights = args.weights;
  op->deadline = deadline;
  op->done = std::move(done);
  if (!args.latest) op->only().round = keys_.PushedRound(args.key);
  Start(now, std::move(op), network);
}

void Client::Batch(Time now, SmallKeyBatchArgs args, Time deadline, Callback done, NetworkRef network) {
  auto op = std::allocate_shared<Operation>(MemoryOf<Operation>(records_), records_);
  op->kind = args.kind;
  op->keys = std::move(args.keys);
  open_.CountCopied(args.source.size());
  op->source = std::move(args.source);
  op->priority = args.priority;
  op->samples = args.samples;
  op->divisor = args.divisor;
  if (args.kind != OpKind::kPush) op->deadline = deadline;
  op->done = std::move(done);
  if (args.kind == OpKind::kPull && !args.latest)
    for (PerKeyOp& key_op : op->keys) key_op.round = keys_.PushedRound(key_op.key);
  Start(now, std::move(op), network);
}

void Client::PushRows(Time now, PushRowsArgs args, Callback done, NetworkRef network) {
  auto op = open_.New(OpKind::kPush, args.key);
  op->source = std::move(args.source);
  op->rows = std::move(args.byte_ranges);
  op->exponent = args.exponent;
  op->priority = args.priority;
  op->samples = args.samples;
  op->divisor = args.divisor;
  op->done = std::move(done);
  Start(now, std::move(op), network);
}

void Client::PullRows(Time now, PullRowsArgs args, Time deadline, Callback done, NetworkRef network) {
  auto op = open_.New(OpKind::kPullRows, args.key);
  op->source = std::move(args.ids);
  op->rows = std::move(args.byte_ranges);
  op->only().destination = std::move(args.destination);
  op->priority = args.priority;
  op->deadline = deadline;
  op->done = std::move(done);
  op->slot = args.slot;
  if (args.slot == 0) op->only().round = keys_.PushedRound(args.key);
  Start(now, std::move(op), network);
}

void Client::StoreRows(Time now, StoreRowsArgs args, Time deadline, Callback done, NetworkRef network) {
  auto op = open_.New(args.slot == 0 ? OpKind::kRows : OpKind::kState, args.key);
  op->slot = args.slot;
  op->only().round = args.num_updates;
  op->source = std::move(args.source);
  op->rows = std::move(args.byte_ranges);
  op->deadline = deadline;
  op->done = std::move(done);
  Start(now, std::move(op), network);
}

void Client::Set(Time now, SetArgs args, Time deadline, Callback done, NetworkRef network) {
  const bool sets = session_.rank() == 0;
  auto op = open_.New(sets ? OpKind::kSet : OpKind::kAwaitSet, args.key);
  if (DeclaredKey* key = keys_.Find(args.key); key != nullptr) {
    const bool async = key->entry.mode == wire::SyncMode::kAsync;
    ++key->sets;
    op->only().round = sets || !async ? key->pushed : key->sets;
  }
  op->source = std::move(args.source);
  if (!sets) op->deadline = deadline;
  op->done = std::move(done);
  Start(now, std::move(op), network);
}

void Client::AwaitRounds(Time now, uint32_t key, Time deadline, Callback done, NetworkRef network) {
  auto op = open_.New(OpKind::kVersion, key);
  op->name = "wait for the rounds";
  op->only().round = keys_.PushedRound(key);
  op->deadline = deadline;
  op->done = std::move(done);
  Start(now, std::move(op), network);
}

void Client::PullUpdates(Time now, uint32_t key, Time deadline, UpdatesDone done, NetworkRef network) {
  auto op = open_.New(OpKind::kVersion, key);
  op->name = "number of updates";
  op->slot = 1;  // asks for the version of a state, which every part has, even without states
  op->deadline = deadline;
  op->done = [done = std::move(done), op](const Status& status) {
    const bool none = op->lowest_version == UINT64_MAX;  // the key has no elements and hence no parts
    done(status.ok() ? Result<uint64_t>(none ? 0 : op->lowest_version) : Result<uint64_t>(status.failure()));
  };
  Start(now, std::move(op), network);
}

void Client::StoreState(Time now, uint32_t key, uint32_t slot, uint64_t num_updates, Frame source,
                        Time deadline, Callback done, NetworkRef network) {
  auto op = open_.New(OpKind::kState, key);
  op->slot = slot;
  op->only().round = num_updates;
  op->source = std::move(source);
  op->deadline = deadline;
  op->done = std::move(done);
  Start(now, std::move(op), network);
}

}  // namespace sluice::worker

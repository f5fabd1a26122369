// What callers ask for, as operations.
#include "worker/client.h"

namespace sluice::worker {

void Client::Push(Time now, PushArgs args, worker::Done done, NetworkRef network) {
  auto op = std::make_shared<Operation>();
  op->kind = OpKind::kPush;
  op->key = args.key;
  op->source = std::move(args.source);
  op->priority = args.priority;
  op->samples = args.samples;
  op->divisor = args.divisor;
  op->done = std::move(done);
  Start(now, std::move(op), network);
  RunCompletions(now, network);
}

void Client::PushPull(Time now, PushArgs args, Destination destination, Time deadline, worker::Done done,
                      NetworkRef network) {
  auto op = std::make_shared<Operation>();
  op->kind = OpKind::kPushPull;
  op->key = args.key;
  op->source = std::move(args.source);
  op->priority = args.priority;
  op->samples = args.samples;
  op->divisor = args.divisor;
  op->destination = std::move(destination);
  op->deadline = deadline;
  op->done = std::move(done);
  Start(now, std::move(op), network);
  RunCompletions(now, network);
}

void Client::Pull(Time now, PullArgs args, Time deadline, worker::Done done, NetworkRef network) {
  auto op = std::make_shared<Operation>();
  op->kind = OpKind::kPull;
  op->key = args.key;
  op->destination = std::move(args.destination);
  op->priority = args.priority;
  op->slot = args.slot;
  op->deadline = deadline;
  op->done = std::move(done);
  if (const auto it = keys_.find(args.key); it != keys_.end() && !args.latest) op->round = it->second.pushed;
  Start(now, std::move(op), network);
  RunCompletions(now, network);
}

void Client::PullState(Time now, PullArgs args, Time deadline,
                       std::function<void(const Result<uint64_t>&)> done, NetworkRef network) {
  auto op = std::make_shared<Operation>();
  Operation* raw = op.get();
  op->kind = OpKind::kPull;
  op->key = args.key;
  op->destination = std::move(args.destination);
  op->slot = args.slot;
  op->deadline = deadline;
  op->done = [done = std::move(done), raw](const Status& status) {
    done(status.ok() ? Result<uint64_t>(raw->lowest_version) : Result<uint64_t>(status.failure()));
  };
  // The operation must outlive its completion.
  auto keep = op;
  auto inner = std::move(op->done);
  op->done = [inner = std::move(inner), keep](const Status& status) { inner(status); };
  Start(now, std::move(op), network);
  RunCompletions(now, network);
}

void Client::StoreState(Time now, uint32_t key, uint32_t slot, uint64_t num_updates, Frame source,
                        worker::Done done, NetworkRef network) {
  auto op = std::make_shared<Operation>();
  op->kind = OpKind::kState;
  op->key = key;
  op->slot = slot;
  op->round = num_updates;
  op->source = std::move(source);
  op->done = std::move(done);
  Start(now, std::move(op), network);
  RunCompletions(now, network);
}

}  // namespace sluice::worker

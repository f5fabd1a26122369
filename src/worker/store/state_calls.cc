#include "worker/store/state_calls.h"

namespace sluice::worker {

Event AskForRounds(const StoreContext& context, const StoreKey& key) {
  return context.Ask("wait for rounds", NewAwaitRounds(context.records(), key.id));
}

Event AskForUpdates(const StoreContext& context, const StoreKey& key, std::shared_ptr<uint64_t> num_updates) {
  return context.Ask(
      "pull of updates",
      [num_updates = std::move(num_updates), id = key.id, records = context.records(),
       timeout = context.Timeout()](Client& client, Time now, transport::Network& network, Done done) {
        auto op = NewPullUpdates(records, id, [num_updates, done](const Result<uint64_t>& updates) {
          if (updates) *num_updates = updates.value();
          done(updates ? Status::Ok() : Status(updates.failure()));
        });
        op->deadline = DeadlineOf(now, timeout);
        client.Submit(now, std::move(op), network);
      });
}

Event AskForState(const StoreContext& context, const StoreKey& key, uint32_t slot,
                  const std::shared_ptr<Buffer>& buffer) {
  auto op = NewOperation(context.records(), OpKind::kPull, key.id);
  op->only().destination = {buffer->bytes(), buffer};
  op->slot = slot;
  op->latest = true;
  return context.Ask("pull of states", std::move(op));
}

Event AskToStore(const StoreContext& context, const StoreKey& key, uint32_t slot, uint64_t num_updates,
                 const Frame& frame) {
  auto op = NewOperation(context.records(), OpKind::kState, key.id);
  op->slot = slot;
  op->only().round = num_updates;
  op->source = frame;
  return context.Ask("store of states", std::move(op));
}

void AwaitRounds(const StoreContext& context, const StoreKey& key) {
  StoreContext::WaitFor({AskForRounds(context, key)}, context.Timeout());
}

uint64_t PullUpdates(const StoreContext& context, const StoreKey& key) {
  const auto num_updates = std::make_shared<uint64_t>(0);
  StoreContext::WaitFor({AskForUpdates(context, key, num_updates)}, context.Timeout());
  return *num_updates;
}

}  // namespace sluice::worker

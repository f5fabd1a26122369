#include "worker/store/state_calls.h"

namespace sluice::worker {

Event AskForRounds(const StoreContext& context, const StoreKey& key) {
  return context.Ask("wait for rounds",
                     [id = key.id, timeout = context.Timeout()](Client& client, Time now,
                                                                transport::Network& network, Done done) {
                       client.AwaitRounds(now, id, DeadlineOf(now, timeout), std::move(done), network);
                     });
}

Event AskForUpdates(const StoreContext& context, const StoreKey& key, std::shared_ptr<uint64_t> num_updates) {
  return context.Ask("pull of updates",
                     [num_updates = std::move(num_updates), id = key.id, timeout = context.Timeout()](
                         Client& client, Time now, transport::Network& network, Done done) {
                       client.PullUpdates(
                           now, id, DeadlineOf(now, timeout),
                           [num_updates, done](const Result<uint64_t>& updates) {
                             if (updates) *num_updates = updates.value();
                             done(updates ? Status::Ok() : Status(updates.failure()));
                           },
                           network);
                     });
}

Event AskForState(const StoreContext& context, const StoreKey& key, uint32_t slot,
                  const std::shared_ptr<Buffer>& buffer) {
  return context.Ask(
      "pull of states",
      [args = PullArgs{.key = key.id, .destination = {buffer->bytes(), buffer}, .slot = slot, .latest = true},
       timeout = context.Timeout()](Client& client, Time now, transport::Network& network, Done done) {
        client.Pull(now, args, DeadlineOf(now, timeout), std::move(done), network);
      });
}

Event AskToStore(const StoreContext& context, const StoreKey& key, uint32_t slot, uint64_t num_updates,
                 const Frame& frame) {
  return context.Ask("store of states", [frame, slot, id = key.id, num_updates, timeout = context.Timeout()](
                                            Client& client, Time now, transport::Network& network,
                                            Done done) {
    client.StoreState(now, id, slot, num_updates, frame, DeadlineOf(now, timeout), std::move(done), network);
  });
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

// Optimiser states of a distributed store: rank 0 gathers them from the servers, and hands them back.
#include "base/strings.h"
#include "kvstore/states_file.h"
#include "sluice/error.h"
#include "worker/dist_store.h"

namespace sluice::worker {

using kvstore::KeyStates;
using kvstore::StateLayout;

std::vector<StateLayout> DistStore::StateLayouts(const std::string& what) const {
  if (optimizer_ == nullptr) throw Error(ErrorCode::kFailedPrecondition, what + ": no optimiser was set");
  std::vector<StateLayout> layouts;
  for (const auto& [key, state] : keys_)
    layouts.push_back({ToString(key), state.shape.shape, state.shape.dtype, state.shape.row_sparse});
  return layouts;
}

void DistStore::PullBytes(const std::string& what, PullArgs args) {
  Await(what, Timeout(),
        [args = std::move(args), timeout = Timeout()](Client& client, Time now, transport::Network& network,
                                                      Done done) {
          client.Pull(now, args, DeadlineOf(now, timeout), std::move(done), network);
        });
}

void DistStore::AwaitRounds(const KeyState& key) {
  Await("wait for rounds", Timeout(),
        [id = key.id, timeout = Timeout()](Client& client, Time now, transport::Network& network, Done done) {
          client.AwaitRounds(now, id, DeadlineOf(now, timeout), std::move(done), network);
        });
}

uint64_t DistStore::PullUpdates(const KeyState& key) {
  const auto num_updates = std::make_shared<uint64_t>(0);
  Await("pull of updates", Timeout(),
        [num_updates, id = key.id, timeout = Timeout()](Client& client, Time now, transport::Network& network,
                                                        Done done) {
          client.PullUpdates(
              now, id, DeadlineOf(now, timeout),
              [num_updates, done](const Result<uint64_t>& updates) {
                if (updates) *num_updates = updates.value();
                done(updates ? Status::Ok() : Status(updates.failure()));
              },
              network);
        });
  return *num_updates;
}

uint64_t DistStore::NumUpdates(const Key& key) {
  outstanding_.Check();
  const std::lock_guard lock(mutex_);
  KeyState& state = Find("NumUpdates", key);
  state.issued.WaitQuietly(Timeout());
  AwaitRounds(state);
  return PullUpdates(state);
}

KeyStates DistStore::PullStates(const KeyState& key) {
  if (key.shape.row_sparse) return PullTableStates(key);
  const auto elements = static_cast<size_t>(key.shape.shape.size());
  AwaitRounds(key);
  KeyStates states;
  states.num_updates = PullUpdates(key);
  const size_t num_states = kvstore::StateNames(*optimizer_, key.shape.dtype).size();
  for (uint32_t slot = 1; slot <= num_states; ++slot) {
    const auto buffer = std::make_shared<Buffer>(kvstore::SlotBytes(key.shape.dtype, elements));
    PullBytes("pull of states",
              {.key = key.id, .destination = {buffer->bytes(), buffer}, .slot = slot, .latest = true});
    states.slots.push_back(std::move(*buffer));
  }
  return states;
}

void DistStore::SaveOptimizerStates(const std::string& path) {
  WaitAll(kDefaultTimeout);
  if (rank_ != 0) return;
  const std::lock_guard lock(mutex_);
  const auto layouts = StateLayouts("SaveOptimizerStates");
  std::map<std::string, KeyStates> saved;
  for (const auto& [key, state] : keys_) saved[ToString(key)] = PullStates(state);
  kvstore::SaveStates(path, *optimizer_, layouts, saved);
}

void DistStore::StoreState(const KeyState& key, uint32_t slot, uint64_t num_updates, const Frame& frame) {
  Await("store of states", Timeout(),
        [frame, slot, id = key.id, num_updates, timeout = Timeout()](Client& client, Time now,
                                                                     transport::Network& network, Done done) {
          client.StoreState(now, id, slot, num_updates, frame, DeadlineOf(now, timeout), std::move(done),
                            network);
        });
}

void DistStore::StoreStates(const KeyState& key, KeyStates states) {
  StoreState(key, 0, states.num_updates, Frame());
  if (key.shape.row_sparse) return StoreTableStates(key, states);
  // A repeat may still be on its way when the wait is over: the frame keeps the bytes.
  for (uint32_t slot = 1; slot <= states.slots.size(); ++slot)
    StoreState(key, slot, states.num_updates,
               Frame::Of(std::make_shared<const Buffer>(std::move(states.slots[slot - 1]))));
}

void DistStore::LoadOptimizerStates(const std::string& path) {
  WaitAll(kDefaultTimeout);
  if (rank_ != 0) return;
  const std::lock_guard lock(mutex_);
  const auto layouts = StateLayouts("LoadOptimizerStates");
  auto loaded = kvstore::LoadStates(path, *optimizer_, layouts);
  for (const auto& [key, state] : keys_) StoreStates(state, std::move(loaded.at(ToString(key))));
}

}  // namespace sluice::worker

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
  Await(what, options_.timeout,
        [args = std::move(args), deadline = Deadline(options_.timeout)](
            Client& client, Time now, transport::Network& network, Done done) {
          client.Pull(now, args, deadline, std::move(done), network);
        });
}

uint64_t DistStore::PullUpdates(const KeyState& key) {
  const auto num_updates = std::make_shared<uint64_t>(0);
  Await("pull of updates", options_.timeout,
        [num_updates, id = key.id, deadline = Deadline(options_.timeout)](
            Client& client, Time now, transport::Network& network, Done done) {
          client.PullUpdates(
              now, id, deadline,
              [num_updates, done](const Result<uint64_t>& updates) {
                if (updates) *num_updates = updates.value();
                done(updates ? Status::Ok() : Status(updates.failure()));
              },
              network);
        });
  return *num_updates;
}

KeyStates DistStore::PullStates(const KeyState& key) {
  if (key.shape.row_sparse) return PullTableStates(key);
  const auto elements = static_cast<size_t>(key.shape.shape.size());
  // The weight first: its pull waits for this worker's last round, and the states with it.
  const auto weight = std::make_shared<Buffer>(elements * SizeOf(key.shape.dtype));
  PullBytes("pull before states", {.key = key.id, .destination = {weight->bytes(), weight}});
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
  WaitAll(options_.timeout);
  if (rank_ != 0) return;
  const std::lock_guard lock(mutex_);
  const auto layouts = StateLayouts("SaveOptimizerStates");
  std::map<std::string, KeyStates> saved;
  for (const auto& [key, state] : keys_) saved[ToString(key)] = PullStates(state);
  kvstore::SaveStates(path, *optimizer_, layouts, saved);
}

void DistStore::StoreState(const KeyState& key, uint32_t slot, uint64_t num_updates, const Frame& frame) {
  Await("store of states", options_.timeout,
        [frame, slot, id = key.id, num_updates, deadline = Deadline(options_.timeout)](
            Client& client, Time now, transport::Network& network, Done done) {
          client.StoreState(now, id, slot, num_updates, frame, deadline, std::move(done), network);
        });
}

void DistStore::StoreStates(const KeyState& key, const KeyStates& states) {
  StoreState(key, 0, states.num_updates, Frame());
  if (key.shape.row_sparse) return StoreTableStates(key, states);
  // A copy: a repeat of it may still be on its way when the wait is over.
  for (uint32_t slot = 1; slot <= states.slots.size(); ++slot)
    StoreState(key, slot, states.num_updates, Frame::Copy(states.slots[slot - 1].bytes()));
}

void DistStore::LoadOptimizerStates(const std::string& path) {
  WaitAll(options_.timeout);
  if (rank_ != 0) return;
  const std::lock_guard lock(mutex_);
  const auto layouts = StateLayouts("LoadOptimizerStates");
  const auto loaded = kvstore::LoadStates(path, *optimizer_, layouts);
  for (const auto& [key, state] : keys_) StoreStates(state, loaded.at(ToString(key)));
}

}  // namespace sluice::worker

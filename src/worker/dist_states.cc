// DistStore: optimiser states. Worker 0 gathers them from the servers and stores them there again.
//
// Called by the program's threads. The calls hold mutex_ and wait for the servers, key group by key
// group. Every call of the client shares the buffers that it writes with this code, since an answer may
// arrive after a wait was given up.
#include "base/strings.h"
#include "kvstore/states_file.h"
#include "sluice/error.h"
#include "worker/dist_store.h"

namespace sluice::worker {

using kvstore::KeyStates;
using kvstore::StateLayout;
namespace {

// The keys of a group are requested together, so that 100,000 small keys do not take as many round trips.
// All calls of a group have the same deadline, so a group is small enough to be done in time.
constexpr size_t kKeysTogether = 256;
constexpr size_t kBytesTogether = size_t{4} << 20;  // bytes of states

}  // namespace

std::vector<StateLayout> DistStore::StateLayouts(const std::string& what) const {
  if (optimizer_ == nullptr) throw Error(ErrorCode::kFailedPrecondition, what + ": no optimiser was set");
  std::vector<StateLayout> layouts;
  for (const auto& [key, state] : keys_)
    layouts.push_back({ToString(key), state.shape.shape, state.shape.dtype, state.shape.row_sparse});
  return layouts;
}

Event DistStore::AskForRounds(const KeyState& key) {
  return Ask("wait for rounds", [id = key.id, timeout = Timeout()](Client& client, Time now,
                                                                   transport::Network& network, Done done) {
    client.AwaitRounds(now, id, DeadlineOf(now, timeout), std::move(done), network);
  });
}

void DistStore::AwaitRounds(const KeyState& key) {
  WaitFor({AskForRounds(key)}, Timeout());
}

Event DistStore::AskForUpdates(const KeyState& key, std::shared_ptr<uint64_t> num_updates) {
  return Ask("pull of updates", [num_updates = std::move(num_updates), id = key.id, timeout = Timeout()](
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

uint64_t DistStore::PullUpdates(const KeyState& key) {
  const auto num_updates = std::make_shared<uint64_t>(0);
  WaitFor({AskForUpdates(key, num_updates)}, Timeout());
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

std::vector<DistStore::KeyGroup> DistStore::GroupsOfKeys() const {
  std::vector<KeyGroup> groups;
  size_t bytes = 0;
  for (const auto& [key, state] : keys_) {
    const bool alone = state.shape.row_sparse;
    const size_t key_op =
        kvstore::SlotBytes(state.shape.dtype, static_cast<size_t>(state.shape.shape.size())) *
        kvstore::StateNames(*optimizer_, state.shape.dtype).size();
    if (groups.empty() || alone || groups.back().front()->shape.row_sparse ||
        groups.back().size() == kKeysTogether || bytes + key_op > kBytesTogether) {
      groups.emplace_back();
      bytes = 0;
    }
    groups.back().push_back(&state);
    bytes += key_op;
  }
  return groups;
}

std::vector<KeyStates> DistStore::PullStates(const KeyGroup& keys) {
  std::vector<KeyStates> states(keys.size());
  if (keys.front()->shape.row_sparse) {
    states.front() = PullTableStates(*keys.front());
    return states;
  }
  std::vector<Event> asked;
  for (const KeyState* key : keys) asked.push_back(AskForRounds(*key));
  WaitFor(asked, Timeout());
  asked.clear();
  // An answer may arrive after the wait has failed, so each call shares the memory that it writes.
  std::vector<std::shared_ptr<uint64_t>> updates;
  std::vector<std::vector<std::shared_ptr<Buffer>>> slots(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto& [shape, dtype, row_sparse] = keys[i]->shape;
    asked.push_back(AskForUpdates(*keys[i], updates.emplace_back(std::make_shared<uint64_t>(0))));
    slots[i].resize(kvstore::StateNames(*optimizer_, dtype).size());
    for (uint32_t slot = 1; slot <= slots[i].size(); ++slot) {
      auto& buffer = slots[i][slot - 1];
      buffer = std::make_shared<Buffer>(kvstore::SlotBytes(dtype, static_cast<size_t>(shape.size())));
      asked.push_back(AskForState(*keys[i], slot, buffer));
    }
  }
  WaitFor(asked, Timeout());
  for (size_t i = 0; i < keys.size(); ++i) {
    states[i].num_updates = *updates[i];
    for (const auto& buffer : slots[i]) states[i].slots.push_back(std::move(*buffer));
  }
  return states;
}

Event DistStore::AskForState(const KeyState& key, uint32_t slot, const std::shared_ptr<Buffer>& buffer) {
  return Ask(
      "pull of states",
      [args = PullArgs{.key = key.id, .destination = {buffer->bytes(), buffer}, .slot = slot, .latest = true},
       timeout = Timeout()](Client& client, Time now, transport::Network& network, Done done) {
        client.Pull(now, args, DeadlineOf(now, timeout), std::move(done), network);
      });
}

void DistStore::SaveOptimizerStates(const std::string& path) {
  WaitAll(kDefaultTimeout);
  if (rank_ != 0) return;
  const std::lock_guard lock(mutex_);
  const auto layouts = StateLayouts("SaveOptimizerStates");
  std::map<std::string, KeyStates> saved;
  auto layout = layouts.begin();
  for (const KeyGroup& keys : GroupsOfKeys())
    for (KeyStates& states : PullStates(keys)) saved[(layout++)->key] = std::move(states);
  kvstore::SaveStates(path, *optimizer_, layouts, saved);
}

Event DistStore::AskToStore(const KeyState& key, uint32_t slot, uint64_t num_updates, const Frame& frame) {
  return Ask("store of states", [frame, slot, id = key.id, num_updates, timeout = Timeout()](
                                    Client& client, Time now, transport::Network& network, Done done) {
    client.StoreState(now, id, slot, num_updates, frame, DeadlineOf(now, timeout), std::move(done), network);
  });
}

void DistStore::StoreStates(const KeyGroup& keys, std::span<KeyStates> states) {
  std::vector<Event> asked;
  for (size_t i = 0; i < keys.size(); ++i)
    asked.push_back(AskToStore(*keys[i], 0, states[i].num_updates, Frame()));
  WaitFor(asked, Timeout());
  if (keys.front()->shape.row_sparse) return StoreTableStates(*keys.front(), states.front());
  asked.clear();
  // A repeated message may still be queued when the wait is over; the frame keeps its bytes alive.
  for (size_t i = 0; i < keys.size(); ++i)
    for (uint32_t slot = 1; slot <= states[i].slots.size(); ++slot)
      asked.push_back(
          AskToStore(*keys[i], slot, states[i].num_updates,
                     Frame::Of(std::make_shared<const Buffer>(std::move(states[i].slots[slot - 1])))));
  WaitFor(asked, Timeout());
}

void DistStore::LoadOptimizerStates(const std::string& path) {
  WaitAll(kDefaultTimeout);
  if (rank_ != 0) return;
  const std::lock_guard lock(mutex_);
  const auto layouts = StateLayouts("LoadOptimizerStates");
  auto loaded = kvstore::LoadStates(path, *optimizer_, layouts);
  auto layout = layouts.begin();
  for (const KeyGroup& keys : GroupsOfKeys()) {
    std::vector<KeyStates> states;
    for (size_t i = 0; i < keys.size(); ++i) states.push_back(std::move(loaded.at((layout++)->key)));
    StoreStates(keys, states);
  }
}

}  // namespace sluice::worker

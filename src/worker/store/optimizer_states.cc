// OptimizerStates: worker 0 gathers the states from the servers, and stores them there again.
//
// DistStore calls this on the program's threads, with its mutex held. The calls wait for the servers, key
// group by key group. Every call of the client shares the buffers that it writes with this code, since an
// answer may arrive after a wait was given up.
#include "worker/store/optimizer_states.h"

#include "base/strings.h"
#include "sluice/error.h"
#include "worker/store/row_tables.h"
#include "worker/store/state_calls.h"

namespace sluice::worker {

using kvstore::KeyStates;
using kvstore::StateLayout;
namespace {

// The keys of a group are requested together, so that 100,000 small keys do not take as many round trips.
// All calls of a group have the same deadline, so a group is small enough to be done in time.
constexpr size_t kKeysTogether = 256;
constexpr size_t kBytesTogether = size_t{4} << 20;  // bytes of states

}  // namespace

std::vector<StateLayout> OptimizerStates::Layouts(const std::string& what) const {
  if (settings_.optimizer == nullptr)
    throw Error(ErrorCode::kFailedPrecondition, what + ": no optimiser was set");
  std::vector<StateLayout> layouts;
  for (const auto& [key, state] : keys_.keys())
    layouts.push_back({ToString(key), state.shape.shape, state.shape.dtype, state.shape.row_sparse});
  return layouts;
}

uint64_t OptimizerStates::NumUpdates(const Key& key) {
  StoreKey& found = keys_.Find("NumUpdates", key);
  found.issued.WaitQuietly(context_.Timeout());
  AwaitRounds(context_, found);
  return PullUpdates(context_, found);
}

std::vector<OptimizerStates::KeyGroup> OptimizerStates::GroupsOfKeys() const {
  std::vector<KeyGroup> groups;
  size_t bytes = 0;
  for (const auto& [key, state] : keys_.keys()) {
    const bool own_group = state.shape.row_sparse;
    const size_t key_bytes =
        kvstore::SlotBytes(state.shape.dtype, static_cast<size_t>(state.shape.shape.size())) *
        kvstore::StateNames(*settings_.optimizer, state.shape.dtype).size();
    if (groups.empty() || own_group || groups.back().front()->shape.row_sparse ||
        groups.back().size() == kKeysTogether || bytes + key_bytes > kBytesTogether) {
      groups.emplace_back();
      bytes = 0;
    }
    groups.back().push_back(&state);
    bytes += key_bytes;
  }
  return groups;
}

std::vector<KeyStates> OptimizerStates::PullStates(const KeyGroup& keys) const {
  std::vector<KeyStates> states(keys.size());
  if (keys.front()->shape.row_sparse) {
    states.front() = PullTableStates(context_, *keys.front(), *settings_.optimizer);
    return states;
  }
  std::vector<Event> asked;
  for (const StoreKey* key : keys) asked.push_back(AskForRounds(context_, *key));
  StoreContext::WaitFor(asked, context_.Timeout());
  asked.clear();
  // An answer may arrive after the wait has failed, so each call shares the memory that it writes.
  std::vector<std::shared_ptr<uint64_t>> updates;
  std::vector<std::vector<std::shared_ptr<Buffer>>> slots(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto& [shape, dtype, row_sparse] = keys[i]->shape;
    asked.push_back(AskForUpdates(context_, *keys[i], updates.emplace_back(std::make_shared<uint64_t>(0))));
    slots[i].resize(kvstore::StateNames(*settings_.optimizer, dtype).size());
    for (uint32_t slot = 1; slot <= slots[i].size(); ++slot) {
      auto& buffer = slots[i][slot - 1];
      buffer = std::make_shared<Buffer>(kvstore::SlotBytes(dtype, static_cast<size_t>(shape.size())));
      asked.push_back(AskForState(context_, *keys[i], slot, buffer));
    }
  }
  StoreContext::WaitFor(asked, context_.Timeout());
  for (size_t i = 0; i < keys.size(); ++i) {
    states[i].num_updates = *updates[i];
    for (const auto& buffer : slots[i]) states[i].slots.push_back(std::move(*buffer));
  }
  return states;
}

void OptimizerStates::Save(const std::string& path) {
  const auto layouts = Layouts("SaveOptimizerStates");
  std::map<std::string, KeyStates> saved;
  auto layout = layouts.begin();
  for (const KeyGroup& keys : GroupsOfKeys())
    for (KeyStates& states : PullStates(keys)) saved[(layout++)->key] = std::move(states);
  kvstore::SaveStates(path, *settings_.optimizer, layouts, saved);
}

void OptimizerStates::StoreStates(const KeyGroup& keys, std::span<KeyStates> states) const {
  std::vector<Event> asked;
  for (size_t i = 0; i < keys.size(); ++i)
    asked.push_back(AskToStore(context_, *keys[i], 0, states[i].num_updates, Frame()));
  StoreContext::WaitFor(asked, context_.Timeout());
  if (keys.front()->shape.row_sparse) return StoreTableStates(context_, *keys.front(), states.front());
  asked.clear();
  // A repeated message may still be queued when the wait is over; the frame keeps its bytes alive.
  for (size_t i = 0; i < keys.size(); ++i)
    for (uint32_t slot = 1; slot <= states[i].slots.size(); ++slot)
      asked.push_back(
          AskToStore(context_, *keys[i], slot, states[i].num_updates,
                     Frame::Of(std::make_shared<const Buffer>(std::move(states[i].slots[slot - 1])))));
  StoreContext::WaitFor(asked, context_.Timeout());
}

void OptimizerStates::Load(const std::string& path) {
  const auto layouts = Layouts("LoadOptimizerStates");
  auto loaded = kvstore::LoadStates(path, *settings_.optimizer, layouts);
  auto layout = layouts.begin();
  for (const KeyGroup& keys : GroupsOfKeys()) {
    std::vector<KeyStates> states;
    for (size_t i = 0; i < keys.size(); ++i) states.push_back(std::move(loaded.at((layout++)->key)));
    StoreStates(keys, states);
  }
}

}  // namespace sluice::worker

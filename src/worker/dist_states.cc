// Optimiser states of a distributed store: rank 0 gathers them from the servers, and hands them back.
#include "base/strings.h"
#include "kvstore/states_file.h"
#include "sluice/error.h"
#include "worker/dist_store.h"

namespace sluice::worker {

using kvstore::KeyStates;
using kvstore::StateLayout;

void DistStore::SaveOptimizerStates(const std::string& path) {
  WaitAll(options_.timeout);
  if (rank_ != 0) return;
  const std::lock_guard lock(mutex_);
  if (optimizer_ == nullptr)
    throw Error(ErrorCode::kFailedPrecondition, "SaveOptimizerStates: no optimiser was set");
  std::vector<StateLayout> layouts;
  std::map<std::string, KeyStates> saved;
  for (auto& [key, state] : keys_) {
    const std::string text = ToString(key);
    const auto elements = static_cast<size_t>(state.shape.shape.size());
    layouts.push_back({text, state.shape.shape, kvstore::StateType(state.shape.dtype)});
    // The weight first: its pull waits for this worker's last round, and the states with it.
    Buffer weight(elements * SizeOf(state.shape.dtype));
    Await("pull before states", options_.timeout,
          [&, id = state.id](Client& client, Time now, transport::Network& network, worker::Done done) {
            client.Pull(now, {.key = id, .destination = {weight.bytes(), nullptr}},
                        Deadline(options_.timeout), std::move(done), network);
          });
    KeyStates& of_key = saved[text];
    for (uint32_t slot = 1; slot <= optimizer_->num_slots(); ++slot) {
      Buffer& buffer = of_key.slots.emplace_back(elements * SizeOf(layouts.back().dtype));
      Await("pull of states", options_.timeout,
            [&, id = state.id](Client& client, Time now, transport::Network& network, worker::Done done) {
              client.PullState(
                  now, {.key = id, .destination = {buffer.bytes(), nullptr}, .slot = slot},
                  Deadline(options_.timeout),
                  [&of_key, done](const Result<uint64_t>& updates) {
                    if (updates) of_key.num_updates = updates.value();
                    done(updates ? Status::Ok() : Status(updates.failure()));
                  },
                  network);
            });
    }
  }
  kvstore::SaveStates(path, *optimizer_, layouts, saved);
}

void DistStore::LoadOptimizerStates(const std::string& path) {
  WaitAll(options_.timeout);
  if (rank_ != 0) return;
  const std::lock_guard lock(mutex_);
  if (optimizer_ == nullptr)
    throw Error(ErrorCode::kFailedPrecondition, "LoadOptimizerStates: no optimiser was set");
  std::vector<StateLayout> layouts;
  for (auto& [key, state] : keys_)
    layouts.push_back({ToString(key), state.shape.shape, kvstore::StateType(state.shape.dtype)});
  auto loaded = kvstore::LoadStates(path, *optimizer_, layouts);
  for (auto& [key, state] : keys_) {
    KeyStates& of_key = loaded.at(ToString(key));
    for (uint32_t slot = 1; slot <= of_key.slots.size(); ++slot) {
      const Frame frame(of_key.slots[slot - 1].bytes(), nullptr);
      Await("store of states", options_.timeout,
            [&, id = state.id](Client& client, Time now, transport::Network& network, worker::Done done) {
              client.StoreState(now, id, slot, of_key.num_updates, frame, std::move(done), network);
            });
    }
  }
}

}  // namespace sluice::worker

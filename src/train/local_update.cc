#include "train/local_update.h"

#include <cstring>

namespace sluice {

void Trainer::LocalUpdate::Set(const OptimizerConfig& config) {
  rule_.optimizer = Optimizer::Create(config);
  for (auto& [key, state] : states_) {
    for (State::Copy& copy : state.copies) copy.update = nullptr;
  }
}

void Trainer::LocalUpdate::Add(const std::string& key, const std::vector<NDArray>& weights) {
  State& state = states_[key];
  state.shape = weights.front().shape();
  state.dtype = weights.front().dtype();
  state.name = "update of " + key;
  state.copies.resize(weights.size());
}

void Trainer::LocalUpdate::Fit(const State& of, kvstore::States* states) const {
  kvstore::FitStates(rule_.optimizer.get(), of.dtype, static_cast<size_t>(of.shape.size()), states);
}

void Trainer::LocalUpdate::Prepare(const std::string& key, const State& of, State::Copy* copy) const {
  Fit(of, &copy->states);
  copy->update = std::make_shared<const kvstore::ArrayUpdate>(
      kvstore::ArrayUpdate{rule_, wire::KeySpec{key, of.dtype, of.shape}, copy->states.arrays});
}

void Trainer::LocalUpdate::AddToStep(const std::string& key, const std::vector<NDArray>& weights,
                                     const std::vector<NDArray>& gradients, double scale) {
  State& state = states_.at(key);
  ++state.num_updates;
  for (size_t i = 0; i < weights.size(); ++i) {
    State::Copy& copy = state.copies[i];
    if (copy.update == nullptr) Prepare(key, state, &copy);
    kvstore::UpdateInput input;
    input.length = static_cast<size_t>(weights[i].size());
    input.scale = scale;
    input.num_update = state.num_updates;
    added_.push_back({state.name, copy.update, input, gradients[i], weights[i], {}});
    added_copies_.push_back(&copy);
  }
}

void Trainer::LocalUpdate::Step() {
  kvstore::EnqueueUpdates(added_);
  for (size_t i = 0; i < added_.size(); ++i) added_copies_[i]->last = added_[i].done;
  added_.clear();
  added_copies_.clear();
}

void Trainer::LocalUpdate::Wait() {
  for (const auto& [key, state] : states_) {
    for (const State::Copy& copy : state.copies) copy.last.Wait();
  }
}

std::vector<kvstore::StateLayout> Trainer::LocalUpdate::Layouts() const {
  std::vector<kvstore::StateLayout> layouts;
  for (const auto& [key, state] : states_) layouts.push_back({key, state.shape, state.dtype});
  return layouts;
}

void Trainer::LocalUpdate::Save(const std::string& path) {
  Wait();
  std::map<std::string, kvstore::KeyStates> saved;
  for (auto& [key, state] : states_) {
    Fit(state, &state.copies.front().states);
    saved[key].num_updates = static_cast<uint64_t>(state.num_updates);
    for (const auto& slot : state.copies.front().states.arrays) {
      Buffer& copy = saved[key].slots.emplace_back(slot->size());
      std::memcpy(copy.data(), slot->data(), copy.size());
    }
  }
  kvstore::SaveStates(path, *rule_.optimizer, Layouts(), saved);
}

void Trainer::LocalUpdate::Load(const std::string& path) {
  Wait();
  const auto loaded = kvstore::LoadStates(path, *rule_.optimizer, Layouts());
  for (auto& [key, state] : states_) {
    const kvstore::KeyStates& of_key = loaded.at(key);
    state.num_updates = static_cast<int64_t>(of_key.num_updates);
    for (State::Copy& copy : state.copies) {
      Fit(state, &copy.states);
      for (size_t slot = 0; slot < copy.states.arrays.size(); ++slot) {
        std::memcpy(copy.states.arrays[slot]->data(), of_key.slots[slot].data(), of_key.slots[slot].size());
      }
    }
  }
}

}  // namespace sluice

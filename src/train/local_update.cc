#include "train/local_update.h"

#include <cstring>

#include "kvstore/update_array.h"
#include "tensor/access.h"

namespace sluice {

void Trainer::LocalUpdate::Set(const OptimizerConfig& config) {
  rule_.optimizer = Optimizer::Create(config);
}

void Trainer::LocalUpdate::Add(const std::string& key, const std::vector<NDArray>& weights) {
  State& state = states_[key];
  state.shape = weights.front().shape();
  state.dtype = weights.front().dtype();
  state.copies.resize(weights.size());
  state.updates.resize(weights.size());
}

void Trainer::LocalUpdate::Fit(const State& of, kvstore::States* states) const {
  kvstore::FitStates(rule_.optimizer.get(), of.dtype, static_cast<size_t>(of.shape.size()), states);
}

void Trainer::LocalUpdate::Run(const std::string& key, std::vector<NDArray>& weights,
                               const std::vector<NDArray>& gradients, double scale) {
  State& state = states_.at(key);
  ++state.num_updates;
  for (size_t i = 0; i < weights.size(); ++i) {
    NDArray& weight = weights[i];
    Fit(state, &state.copies[i]);
    kvstore::UpdateInput input;
    input.length = static_cast<size_t>(weight.size());
    input.scale = scale;
    input.num_update = state.num_updates;
    Events after = PendingUses(weight);
    after.push_back(ReadyToRead(weight));
    after.push_back(ReadyToRead(gradients[i]));
    const Event done =
        EnqueueOn(weight.context(), "update of " + key, after,
                  [input, rule = rule_, spec = wire::KeySpec{key, weight.dtype(), weight.shape()},
                   states = state.copies[i].arrays, from = HostFrame(gradients[i]), old = HostFrame(weight),
                   to = MutableHostBytes(weight).data()]() mutable {
                    const std::byte* source[] = {from.data()};
                    input.spec = &spec;
                    input.gradients = source;
                    kvstore::UpdateArray(rule, input, old.data(), to, states);
                  });
    AddReader(gradients[i], done);
    SetWriter(weight, done);
    state.updates[i] = done;
  }
}

void Trainer::LocalUpdate::Wait() {
  for (const auto& [key, state] : states_) {
    for (const Event& update : state.updates) update.Wait();
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
    Fit(state, &state.copies.front());
    saved[key].num_updates = static_cast<uint64_t>(state.num_updates);
    for (const auto& slot : state.copies.front().arrays) {
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
    for (kvstore::States& copy : state.copies) {
      Fit(state, &copy);
      for (size_t slot = 0; slot < copy.arrays.size(); ++slot) {
        std::memcpy(copy.arrays[slot]->data(), of_key.slots[slot].data(), of_key.slots[slot].size());
      }
    }
  }
}

}  // namespace sluice

// LocalUpdate: the optimiser, its states and the updates on each context (local_update.h).
//
// Every context has a copy of a key's states beside its weights; equal weights and gradients keep the
// copies equal, so saving reads the first one. Updates run on the contexts' streams, and states may be
// touched here only after Wait, or after a copy's `last`. The Trainer calls all methods on the training
// thread; Load is also a barrier of all workers.
#include "train/trainer/local_update.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/strings.h"
#include "sluice/error.h"
#include "tensor/access.h"

namespace sluice::internal {

void LocalUpdate::Set(const OptimizerConfig& config) {
  rule_.optimizer = Optimizer::Create(config);
  for (auto& [key, state] : states_) {
    for (State::Copy& copy : state.copies) copy.array_rule = nullptr;
  }
}

void LocalUpdate::Add(const std::string& key, const std::vector<NDArray>& weights) {
  State& state = states_[key];
  state.shape = weights.front().shape();
  state.dtype = weights.front().dtype();
  state.name = "update of " + key;
  state.copies.clear();
  for (const NDArray& weight : weights) state.copies.push_back({.context = weight.context()});
}

void LocalUpdate::AddTable(const std::string& key, const Shape& shape) {
  tables_.emplace(key, RowUpdate(key, shape));
}

int64_t LocalUpdate::NumUpdates(const std::string& key) const {
  const auto table = tables_.find(key);
  return table != tables_.end() ? table->second.num_updates() : states_.at(key).num_updates;
}

void LocalUpdate::AddConstant(const std::string& key, const std::vector<NDArray>& values) {
  constants_.push_back({key, values.front().shape(), values.front().dtype()});
}

// Adapts the copies to the contexts, which may have changed. New copies start from the first one's states.
void LocalUpdate::FollowCopies(State* state, const std::vector<NDArray>& weights) const {
  const size_t before = state->copies.size(), count = weights.size();
  state->copies.resize(count);
  for (size_t i = 0; i < count; ++i) {
    State::Copy& copy = state->copies[i];
    if (std::exchange(copy.context, weights[i].context()) == copy.context) continue;
    copy.last.WaitQuietly();  // it may still write the states, which go along
    copy.array_rule = nullptr;
  }
  if (count <= before) return;
  State::Copy& first = state->copies.front();
  first.last.Wait();
  Fit(*state, &first);
  const std::vector<Buffer> states = first.states.Copies();
  for (size_t i = before; i < count; ++i) {
    Fit(*state, &state->copies[i]);
    state->copies[i].states.Set(states);
  }
}

// Gives `copy` the optimiser's states for `of`; existing ones that fit are kept.
void LocalUpdate::Fit(const State& of, State::Copy* copy) const {
  copy->states.Fit(rule_.optimizer.get(), of.dtype, of.shape.size(), copy->context);
}

void LocalUpdate::Prepare(const std::string& key, const State& of, State::Copy* copy) const {
  Fit(of, copy);
  copy->array_rule = std::make_shared<const kvstore::ArrayRule>(kvstore::ArrayRule{
      rule_, wire::KeySpec{key, of.dtype, of.shape}, copy->states.on_host(), copy->states.on_card()});
}

void LocalUpdate::AddToStep(const std::string& key, const std::vector<NDArray>& weights,
                            const std::vector<NDArray>& gradients, double scale) {
  State& state = states_.at(key);
  try {
    FollowCopies(&state, weights);
    for (State::Copy& copy : state.copies) {
      if (copy.array_rule == nullptr) Prepare(key, state, &copy);
    }
  } catch (...) {  // no memory for states: the step is not made
    Forget();
    throw;
  }
  ++state.num_updates;
  for (size_t i = 0; i < weights.size(); ++i) {
    State::Copy& copy = state.copies[i];
    kvstore::UpdateInput input;
    input.length = static_cast<size_t>(weights[i].size());
    input.scale = scale;
    input.num_update = state.num_updates;
    added_.push_back({state.name, copy.array_rule, input, {gradients[i]}, weights[i], {}});
    added_copies_.push_back(&copy);
  }
}

void LocalUpdate::Step() {
  try {
    kvstore::EnqueueUpdates(added_);
  } catch (...) {
    Forget();
    throw;
  }
  for (size_t i = 0; i < added_.size(); ++i) added_copies_[i]->last = added_[i].done;
  Forget();
}

void LocalUpdate::Forget() {
  added_.clear();
  added_copies_.clear();
}

void LocalUpdate::Wait() {
  for (const auto& [key, state] : states_) {
    for (const State::Copy& copy : state.copies) copy.last.Wait();
  }
}

std::vector<kvstore::StateLayout> LocalUpdate::Layouts() const {
  std::vector<kvstore::StateLayout> layouts;
  for (const auto& [key, state] : states_) layouts.push_back({key, state.shape, state.dtype});
  for (const auto& [key, table] : tables_) layouts.push_back(table.Layout());
  return layouts;
}

void LocalUpdate::Save(const std::string& path) {
  Wait();
  std::map<std::string, kvstore::KeyStates> saved;
  for (auto& [key, state] : states_) {
    Fit(state, &state.copies.front());
    saved[key].num_updates = static_cast<uint64_t>(state.num_updates);
    saved[key].slots = state.copies.front().states.Copies();
  }
  for (auto& [key, table] : tables_) saved[key] = table.States(*rule_.optimizer);
  std::vector<kvstore::StateLayout> layouts = Layouts();
  for (const kvstore::StateLayout& constant : constants_) {
    layouts.push_back(constant);
    kvstore::States zeros;
    kvstore::FitStates(rule_.optimizer.get(), constant.dtype, static_cast<size_t>(constant.shape.size()),
                       &zeros);
    for (auto& slot : zeros.arrays) saved[constant.key].slots.push_back(std::move(*slot));
    saved[constant.key].num_updates = 0;
  }
  kvstore::SaveStates(path, *rule_.optimizer, layouts, saved);
}

// Returns what rank 0's file holds; nothing on the other workers. Throws on all workers when rank 0
// cannot read it.
LocalUpdate::Loaded LocalUpdate::Read(const std::string& path, KVStore& store) const {
  Loaded loaded;
  std::optional<Error> failure;
  if (store.rank() == 0) {
    try {
      loaded = kvstore::LoadStates(path, *rule_.optimizer, Layouts());
    } catch (const Error& error) {
      failure = error;
    }
  }
  const std::string why = store.Agree(failure ? failure->what() : "");
  if (failure) throw *failure;
  if (!why.empty()) throw Error(ErrorCode::kFailedPrecondition, "rank 0: " + why);
  return loaded;
}

// Brings rank 0's `loaded` to all workers, as a sum: in a store without an optimiser a round is the sum of
// the pushes. Rank 0 pushes its states and the others -0, which leaves every addend, also -0, as it is.
// States of tables travel as those of all rows, since the other workers do not know which rows have any.
void LocalUpdate::Share(KVStore& store, Loaded* loaded) {
  const bool leader = store.rank() == 0;
  const std::vector<kvstore::StateLayout> layouts = Layouts();
  for (auto& [key, table] : tables_)
    if (leader) table.Spread(&loaded->at(key));
  std::vector<Key> keys = {Key("Trainer/updates")};
  std::vector<NDArray> arrays = {NDArray({static_cast<int64_t>(layouts.size())}, cpu(0), DType::kFloat64)};
  std::vector<double> updates;
  for (const kvstore::StateLayout& layout : layouts) {
    kvstore::KeyStates& states = (*loaded)[layout.key];
    const size_t slots = kvstore::StateNames(*rule_.optimizer, layout.dtype).size();
    for (size_t slot = 0; slot < slots; ++slot) {
      keys.emplace_back(StrCat("Trainer/", layout.key, "/", slot));
      arrays.push_back(NDArray::Empty(layout.shape, cpu(0), kvstore::StateType(layout.dtype)));
      leader ? arrays.back().SetBytes(states.slots[slot].bytes()) : arrays.back().Fill(-0.0);
    }
    states.slots.resize(slots);
    updates.push_back(leader ? static_cast<double>(states.num_updates) : 0);
  }
  arrays.front().SetBytes(std::as_bytes(std::span(updates)));
  if (!shared_) store.Init(keys, arrays);
  shared_ = true;
  std::vector<KVStore::Values> values;
  for (const NDArray& array : arrays) values.push_back({array});
  store.PushPull(keys, values, {}, {.uncompressed = true});

  updates = arrays.front().ToVector<double>();
  auto array = arrays.begin() + 1;
  for (size_t i = 0; const kvstore::StateLayout& layout : layouts) {
    kvstore::KeyStates& states = loaded->at(layout.key);
    states.num_updates = static_cast<uint64_t>(updates[i++]);
    for (Buffer& slot : states.slots) {
      array->WaitToRead();
      const Bytes bytes = HostBytes(*array++);
      slot = Buffer(bytes.size());
      std::copy(bytes.begin(), bytes.end(), slot.data());
    }
  }
  for (auto& [key, table] : tables_) table.Gather(&loaded->at(key));
}

void LocalUpdate::Load(const std::string& path, KVStore& store) {
  Wait();
  Loaded loaded = Read(path, store);
  if (store.num_workers() > 1) Share(store, &loaded);
  for (auto& [key, table] : tables_) table.SetStates(*rule_.optimizer, loaded.at(key));
  for (auto& [key, state] : states_) {
    const kvstore::KeyStates& of_key = loaded.at(key);
    state.num_updates = static_cast<int64_t>(of_key.num_updates);
    for (State::Copy& copy : state.copies) {
      Fit(state, &copy);
      copy.states.Set(of_key.slots);
    }
  }
}

}  // namespace sluice::internal
